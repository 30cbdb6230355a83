"""Tables drawn in a given width: columns that share it, or one record a row where they cannot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from widgets.transcript.wrap import Row, wrap

Align = Literal["left", "center", "right"]

WORD = 12
"""A column is made no narrower than its longest word, or than this many cells."""
_BAR = " │ "


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as runs; the first row is the header. Every row has as many cells as `aligns`."""

    rows: Sequence[Sequence[Row]]
    aligns: Sequence[Align]


def render_table(table: Table, width: int, rule: Style, blank: Style) -> list[Row]:
    """Rows of at most `width` cells. `rule` draws the lines, `blank` the space around the cells."""
    widths = _column_widths(table, width - len(_BAR) * (len(table.aligns) - 1))
    if widths is None:
        return _records(table, width, rule, blank)
    drawn: list[Row] = []
    for number, cells in enumerate(table.rows):
        drawn += _across(cells, widths, table.aligns, rule, blank)
        if number == 0:
            drawn.append([Segment("─┼─".join("─" * column for column in widths), rule)])
    return drawn


def _column_widths(table: Table, room: int) -> list[int] | None:
    """Cells of each column so that they fill no more than `room`; None if they cannot."""
    columns = range(len(table.aligns))
    texts = [["".join(run.text for run in cells[column]) for cells in table.rows] for column in columns]
    natural = [max(1, *(_widest(text.split("\n")) for text in column)) for column in texts]
    if sum(natural) <= room:
        return natural
    least = [
        min(wide, max(3, min(WORD, _widest(re.split(r"\s+", " ".join(column))))))
        for wide, column in zip(natural, texts, strict=True)
    ]
    if sum(least) > room:
        return None
    return _share(natural, least, room)


def _widest(texts: list[str]) -> int:
    return max(map(cell_len, texts))


def _share(natural: list[int], least: list[int], room: int) -> list[int]:
    """`room` given out: narrow columns get all they want, the others even parts of the rest."""
    widths = list(least)
    left = room - sum(least)
    while left > 0:
        hungry = [column for column, wide in enumerate(widths) if wide < natural[column]]
        lowest = min(hungry, key=lambda column: widths[column])
        widths[lowest] += 1
        left -= 1
    return widths


def _across(
    cells: Sequence[Row], widths: list[int], aligns: Sequence[Align], rule: Style, blank: Style
) -> list[Row]:
    columns = [wrap(cell, wide) for cell, wide in zip(cells, widths, strict=True)]
    drawn: list[Row] = []
    for line in range(max(map(len, columns))):
        row: Row = []
        for column, (rows, wide) in enumerate(zip(columns, widths, strict=True)):
            content = rows[line] if line < len(rows) else []
            if column:
                row.append(Segment(_BAR, rule))
            row += _aligned(content, wide, aligns[column], blank)
        drawn.append(row)
    return drawn


def _aligned(row: Row, width: int, align: Align, blank: Style) -> Row:
    room = max(width - sum(run.cell_length for run in row), 0)
    before = {"left": 0, "center": room // 2, "right": room}[align]
    padded = [Segment(" " * before, blank), *row, Segment(" " * (room - before), blank)]
    return [run for run in padded if run.text]


def _records(table: Table, width: int, rule: Style, blank: Style) -> list[Row]:
    """Each row as lines of its own: the name of the column, then what the cell says."""
    header, *rest = table.rows
    if not rest:
        return [row for cell in header for row in wrap(cell, width)]
    drawn: list[Row] = []
    for number, cells in enumerate(rest):
        if number:
            drawn.append([Segment("─" * min(width, WORD), rule)])
        for name, cell in zip(header, cells, strict=True):
            drawn += wrap([*name, Segment(": ", blank), *cell], width)
    return drawn
