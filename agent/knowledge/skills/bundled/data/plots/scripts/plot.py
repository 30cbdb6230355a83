"""A chart from a CSV file: plot.py DATA.csv --kind line|bar|scatter|hist --y COLUMN -o OUT.svg"""

from __future__ import annotations

import argparse
import csv
import sys
from datetime import datetime
from pathlib import Path


def value(text: str) -> object:
    for read in (float, datetime.fromisoformat):
        try:
            return read(text.strip())
        except ValueError:
            continue
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--kind", choices=("line", "bar", "scatter", "hist"), default="line")
    parser.add_argument("--x")
    parser.add_argument("--y", required=True)
    parser.add_argument("--by", help="one series for each value of this column")
    parser.add_argument("--title", default="")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise SystemExit(
            "The package matplotlib is missing; install it: python -m pip install matplotlib."
        ) from None
    mpl.use("Agg")
    from matplotlib import pyplot

    if not options.data.is_file():
        raise SystemExit(f"There is no file {options.data}.")
    with options.data.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = [name for name in (options.x, options.y, options.by) if name]
    if not rows or any(name not in rows[0] for name in wanted):
        raise SystemExit(
            f"Columns are {', '.join(rows[0]) if rows else '(none)'}; asked for {', '.join(wanted)}."
        )
    rows = [row for row in rows if isinstance(value(row[options.y]), float)]
    if not rows:
        raise SystemExit(f"The column {options.y} holds no numbers.")
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name in dict.fromkeys(row[options.by] if options.by else "" for row in rows):
        own = [row for row in rows if not options.by or row[options.by] == name]
        ys = [value(row[options.y]) for row in own]
        xs = [value(row[options.x]) for row in own] if options.x else list(range(1, len(ys) + 1))
        label = name or None
        if options.kind == "hist":
            axes.hist(ys, bins="auto", alpha=0.7, label=label)
        elif options.kind == "bar":
            order = sorted(zip(ys, map(str, xs), strict=True), key=lambda pair: pair[0])
            axes.barh([text for _, text in order], [size for size, _ in order], label=label)
        elif options.kind == "scatter":
            axes.scatter(xs, ys, s=14, alpha=0.7, label=label)
        else:
            order = sorted(zip(xs, ys, strict=True), key=lambda pair: (str(type(pair[0])), pair[0]))
            axes.plot([x for x, _ in order], [y for _, y in order], label=label)
    across, up = (options.y, "count") if options.kind == "hist" else (options.x or "", options.y)
    if options.kind == "bar":
        across, up = options.y, options.x or ""
    axes.set(title=options.title, xlabel=across, ylabel=up)
    axes.spines[["top", "right"]].set_visible(False)
    if options.by:
        axes.legend(frameon=False)
    figure.savefig(options.output, dpi=150)
    print(f"{options.output}: {len(rows):,} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
