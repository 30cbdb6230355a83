"""Figures of docs/developing/benchmarks.md that a test can check: those that are sizes, not times."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.schema_size import REFERENCE, sent_tools, size

PAGE = Path(__file__).parents[1] / "docs" / "developing/benchmarks.md"


async def test_the_size_of_the_schemas_is_the_one_that_is_sent(tmp_path: Path) -> None:
    total = size(await sent_tools(tmp_path))
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if "`schema_size.py`" in line)
    published = re.search(r"([\d.]+) KB as sent, ([\d.]+) ×", row)
    assert published is not None, row
    expected = (f"{total / 1000:.1f}", f"{total / REFERENCE:.2f}")
    assert published.groups() == expected, f"write {expected} into {PAGE.name}"
    assert total < 24_000
