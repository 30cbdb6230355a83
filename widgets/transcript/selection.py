"""Selected text: places as the coordinates that Textual's selection compares."""

from __future__ import annotations

from textual.geometry import Offset
from textual.selection import Selection

from tools.text.safe_text import clean
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.drawing import GUTTER
from widgets.transcript.wide_rows import whole_text

_PART_BITS = 24
_ROW_BITS = 24
_ORIGIN = 1 << 32
"""Added to the index of an item, which can be negative, while a coordinate should not."""


def line_of(place: RowPosition) -> int:
    """A number for a place that keeps the order of places and stays when rows above it change."""
    return (place.item + _ORIGIN << _PART_BITS | place.part) << _ROW_BITS | place.row


def place_of(line: int) -> RowPosition:
    """The place of a number made by `line_of`."""
    rest, row = divmod(line, 1 << _ROW_BITS)
    item, part = divmod(rest, 1 << _PART_BITS)
    return RowPosition(item - _ORIGIN, part, row)


def span_of(selection: Selection, place: RowPosition, length: int) -> tuple[int, int] | None:
    """Which characters of a row of `length` characters are selected; the gutter never is."""
    span = selection.get_span(line_of(place))
    if span is None:
        return None
    start, end = span
    end = length if end == -1 else min(end, length)
    start = max(start, GUTTER)
    return (start, end) if start < end else None


def whole(document: Document, index: int) -> Selection:
    """The selection of one item."""
    return Selection(
        Offset(0, line_of(document.start_of(index))), Offset(0, line_of(RowPosition(index + 1, 0, 0)))
    )


def selected_text(document: Document, selection: Selection) -> str:
    """The selected text, without gutter and blanks at the ends of rows; lines of code are whole."""
    if selection.start is None and selection.end is None:
        for _ in document.fill():
            pass
        return "\n\n".join(clean(document.source(index)) for index in range(document.first, document.stop))
    start = place_of(selection.start.y) if selection.start is not None else document.start
    last = selection.end.y if selection.end is not None else line_of(document.end)
    lines: list[str] = []
    for row in document.down(start):
        if line_of(row.place) > last:
            break
        span = span_of(selection, row.place, len(row.strip.text))
        text, joined = whole_text(row.strip, *span) if span else ("", None)
        if joined is not None and lines:
            lines[-1] += " " * joined + text.rstrip()
        else:
            lines.append(text.rstrip())
    return "\n".join(lines).strip("\n")
