"""Soft wrap: which stretch of the text each row shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from widgets.prompt.buffer import Span
from widgets.prompt.grapheme_cells import clusters


def lay_out(text: str, width: int, labels: Mapping[str, str]) -> list[Span]:
    """The rows of `text` in `width` cells, at least one, wrapped behind blanks where there are some.

    Only changed lines are wrapped anew. A row ends where the next one starts when a
    line goes on; the line feed between two lines belongs to neither row.
    """
    rows: list[Span] = []
    at = 0
    for line in text.split("\n"):
        if any(token in line for token in labels):
            spans = _wrap(line, width, labels)
        else:
            spans = _wrap_plain(line, width)
        rows += [(at + start, at + end) for start, end in spans]
        at += len(line) + 1
    return rows


def row_of(rows: list[Span], offset: int) -> int:
    """The row the cursor is drawn on: a wrapped row's end is the start of the next one."""
    low, high = 0, len(rows) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if rows[middle][0] <= offset:
            low = middle
        else:
            high = middle - 1
    return low


def offset_at(text: str, rows: list[Span], row: int, column: int, labels: Mapping[str, str]) -> int:
    """The offset nearest to a cell: in front of the character there, or at the end of the row."""
    row = min(max(row, 0), len(rows) - 1)
    start, end = rows[row]
    left = 0
    last = start
    for cluster in clusters(text[start:end], labels):
        last = start + cluster.start
        if column < left + cluster.cells:
            return last
        left += cluster.cells
    continued = any(following[0] == end for following in rows[row + 1 : row + 2])
    return last if continued else end


@lru_cache(maxsize=4096)
def _wrap_plain(line: str, width: int) -> tuple[Span, ...]:
    if line.isascii() and "\t" not in line:
        return _wrap_ascii(line, width)
    return _wrap(line, width, {})


def _wrap_ascii(line: str, width: int) -> tuple[Span, ...]:
    """What `_wrap` gives, row by row instead of character by character."""
    rows: list[Span] = []
    start = 0
    while len(line) - start > width:
        end = start + width
        if line[end] != " ":
            end = line.rfind(" ", start, end) + 1 or end
        rows.append((start, end))
        start = end
    rows.append((start, len(line)))
    return tuple(rows)


def _wrap(line: str, width: int, labels: Mapping[str, str]) -> tuple[Span, ...]:
    rows: list[Span] = []
    start = chance = 0
    used = since_chance = 0
    for cluster in clusters(line, labels):
        while used + cluster.cells > width and cluster.start > start:
            if chance <= start or cluster.shown == " ":
                chance, since_chance = cluster.start, 0
            rows.append((start, chance))
            start, used = chance, since_chance
        wide = cluster.cells == 2 and not cluster.shown.isspace()
        if wide and cluster.start > start:
            chance, since_chance = cluster.start, 0
        used += cluster.cells
        since_chance += cluster.cells
        if wide or cluster.shown.isspace():
            chance, since_chance = cluster.end, 0
    rows.append((start, len(line)))
    return tuple(rows)
