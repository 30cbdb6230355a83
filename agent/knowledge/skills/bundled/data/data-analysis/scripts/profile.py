"""Print a summary of a table: profile.py FILE.(csv|tsv|jsonl|sqlite|db) [TABLE]"""

from __future__ import annotations

import collections
import csv
import json
import math
import sqlite3
import statistics
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

MOST_ROWS = 500_000
MOST_DISTINCT = 50_000
MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}


def rows(path: Path, table: str | None) -> Iterator[dict[str, Any]]:
    suffix = path.suffix.lower()
    if suffix in (".sqlite", ".sqlite3", ".db"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            names = [
                row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            if (table is None and len(names) != 1) or (table is not None and table not in names):
                raise SystemExit(f"Name one of the tables: {', '.join(names) or '(there are none)'}.")
            quoted = (table or names[0]).replace('"', '""')
            cursor = connection.execute(f'SELECT * FROM "{quoted}"')
            columns = [each[0] for each in cursor.description]
            for row in cursor:
                yield dict(zip(columns, row, strict=True))
        return
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        if suffix in (".jsonl", ".ndjson"):
            for line in file:
                if line.strip():
                    value = json.loads(line)
                    yield value if isinstance(value, dict) else {"value": value}
            return
        sample = file.read(65_536)
        file.seek(0)
        try:
            dialect = csv.Sniffer().sniff(sample, ",;\t|")
        except csv.Error:
            dialect = csv.excel_tab if suffix == ".tsv" else csv.excel
        yield from csv.DictReader(file, dialect=dialect)


def number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        result = float(str(value).strip())
    except ValueError:
        return None
    return result if math.isfinite(result) else None


def describe(name: str, values: list[Any], count: int) -> str:
    present = [value for value in values if value is not None and str(value).strip().lower() not in MISSING]
    distinct = collections.Counter(str(value) for value in present[:MOST_DISTINCT])
    notes = []
    missing = count - len(present)
    numbers = [each for value in present if (each := number(value)) is not None]
    if present and len(numbers) >= 0.95 * len(present):
        ordered = sorted(numbers)
        low, middle, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.05, 0.5, 0.95))
        shape = (
            f"number  min {ordered[0]:g}  5% {low:g}  median {middle:g}  95% {high:g}  max {ordered[-1]:g}"
        )
        shape += f"  mean {statistics.fmean(ordered):g}"
        if len(numbers) < len(present):
            notes.append(f"{len(present) - len(numbers)} values are not numbers")
    else:
        common = ", ".join(f"{value[:30]!r} {times}" for value, times in distinct.most_common(4))
        shape = f"text  {common}"
        folded = {value.strip().lower() for value in distinct}
        if len(folded) < len(distinct):
            notes.append("spellings differ only in case or spaces")
    if len(distinct) == len(present) > 1:
        notes.append("all different: a key?")
    if len(distinct) == 1:
        notes.append("always the same")
    tail = f"\n      note: {'; '.join(notes)}" if notes else ""
    filled = f"missing {missing:,} ({missing / max(count, 1):.1%})  distinct {len(distinct):,}"
    return f"  {name}\n      {filled}\n      {shape}{tail}"


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2 or not Path(arguments[0]).is_file():
        raise SystemExit("usage: profile.py FILE.(csv|tsv|jsonl|sqlite|db) [TABLE]")
    columns: dict[str, list[Any]] = {}
    seen: collections.Counter[str] = collections.Counter()
    count = 0
    for row in rows(Path(arguments[0]), arguments[1] if len(arguments) == 2 else None):
        if count == MOST_ROWS:
            print(f"Only the first {MOST_ROWS:,} rows were read.")
            break
        for name, value in row.items():
            columns.setdefault(str(name), [None] * count).append(value)
        count += 1
        for values in columns.values():
            if len(values) < count:
                values.append(None)
        if count <= MOST_DISTINCT:
            seen[json.dumps(row, sort_keys=True, default=str)] += 1
    doubles = sum(times - 1 for times in seen.values())
    print(f"{count:,} rows, {len(columns)} columns, {doubles:,} rows exactly doubled")
    for name, values in columns.items():
        print(describe(name, values, count))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
