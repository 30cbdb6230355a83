"""Count the shapes of log lines: shapes.py FILE… [--against FILE] [--since HH:MM] [--until HH:MM]"""

from __future__ import annotations

import argparse
import collections
import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PARTS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{4,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r'"[^"]{25,}"'), '"<text>"'),
    (re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|us|kb|mb|gb|%)?\b", re.IGNORECASE), "<n>"),
)
CLOCK = re.compile(r"\b(\d\d:\d\d)(?::\d\d)?")
LONGEST = 2_000


def shape(line: str) -> str:
    for pattern, mark in PARTS:
        line = pattern.sub(mark, line)
    return line.strip()


def lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            yield line[:LONGEST].rstrip("\n")


def count(path: Path, since: str, until: str) -> tuple[collections.Counter[str], dict[str, tuple[int, str]]]:
    found: collections.Counter[str] = collections.Counter()
    first: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines(path), 1):
        if since or until:
            clock = CLOCK.search(line)
            if clock is None or (since and clock[1] < since) or (until and clock[1] >= until):
                continue
        key = shape(line)
        found[key] += 1
        first.setdefault(key, (number, line))
    return found, first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--since", default="")
    parser.add_argument("--until", default="")
    parser.add_argument("--top", type=int, default=25)
    options = parser.parse_args()
    for path in [*options.files, *([options.against] if options.against else [])]:
        if not path.is_file():
            raise SystemExit(f"There is no file {path}.")
    usual = count(options.against, "", "")[0] if options.against else collections.Counter[str]()
    usual_total = max(usual.total(), 1)
    for path in options.files:
        found, first = count(path, options.since, options.until)
        total = max(found.total(), 1)
        print(f"{path}: {found.total():,} lines, {len(found):,} shapes")
        ordered = found.most_common()
        if options.against:
            ordered = [
                (key, n)
                for key, n in ordered
                if n / total > 5 * (usual[key] + 1) / usual_total or not usual[key]
            ]
        for key, times in ordered[: options.top]:
            number, example = first[key]
            mark = " NEW" if options.against and not usual[key] else ""
            print(f"{times:>8,}{mark}  line {number}: {example[:300]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
