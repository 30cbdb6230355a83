"""Styled text cut into rows of a given number of cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.rows.row_text import countable
from widgets.transcript.wide_rows import Row, cells_of, window

TAB = 8
"""Columns between the tab stops of outside text that is no code."""

_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6"
    "\U00020000-\U0003fffd"
)
_CLOSING = "、。，．：；？！）」』】〕〉》”’…!?,.;:)\\]"
_BLANKS = re.compile("[\b\t\n\r\u2028\u2029]")
# Words end at blanks; scripts without blanks may be cut between any two signs, but not before punctuation.
_PIECE = re.compile(rf"[ \t]+|[{_WIDE}][{_CLOSING}]*|[^ \t{_WIDE}]+")


def flat(text: str) -> str:
    """`text` as it can stand within one row: no control characters, no line feeds, no tabs."""
    return text if text.isprintable() else countable(clean(_BLANKS.sub(" ", text)))


def expand_tabs(line: str, size: int) -> str:
    """`line` with blanks up to the next tab stop in place of tabs, counted in cells."""
    line = countable(line)
    if "\t" not in line:
        return line
    if line.isascii():
        return line.expandtabs(size)
    done: list[str] = []
    column = 0
    for piece in line.split("\t")[:-1]:
        column += cell_len(piece)
        gap = size - column % size
        done.append(piece + " " * gap)
        column += gap
    return "".join(done) + line.rsplit("\t", 1)[1]


def wrap(runs: Sequence[Segment], width: int) -> list[Row]:
    """Rows of at most `width` cells, cut between words where possible; a line feed starts a new row."""
    spans: list[tuple[int, int]] = []
    start = 0
    for line in "".join(run.text for run in runs).split("\n"):
        spans += _fold(line, max(width, 1), start)
        start += len(line) + 1
    return _cut(runs, spans)


def _fold(line: str, width: int, offset: int) -> list[tuple[int, int]]:
    """Where the rows of a line start and end; blanks at a break belong to none."""
    if cell_len(line) <= width:
        return [(offset, offset + len(line))]
    spans: list[tuple[int, int]] = []
    start = end = used = 0
    for match in _PIECE.finditer(line):
        piece = match[0]
        cells = cell_len(piece)
        if piece.isspace():
            if start == end and used == 0 and spans:
                start = end = match.end()
            else:
                used += cells
            continue
        if used + cells > width:
            if end > start:
                spans.append((offset + start, offset + end))
            start, used = match.start(), 0
            if cells > width:
                *full, last = _chop(piece, width)
                for part in full:
                    spans.append((offset + start, offset + start + len(part)))
                    start += len(part)
                cells = cell_len(last)
        used += cells
        end = match.end()
    if end > start or not spans:
        spans.append((offset + start, offset + end))
    return spans


def _chop(word: str, width: int) -> list[str]:
    if word.isascii():
        return [word[at : at + width] for at in range(0, len(word), width)]
    return [part for part in chop_cells(word, width) if part]


def _cut(runs: Sequence[Segment], spans: Iterable[tuple[int, int]]) -> list[Row]:
    """The parts of the runs between the given places, which ascend."""
    rows: list[Row] = []
    index = begin = 0
    for start, end in spans:
        row: Row = []
        while index < len(runs):
            run = runs[index]
            finish = begin + len(run.text)
            if finish > start and begin < end:
                row.append(Segment(run.text[max(start - begin, 0) : end - begin], run.style))
            if finish > end:
                break
            begin = finish
            index += 1
        rows.append(row)
    return rows


def crop(row: Row, width: int, style: Style) -> Row:
    """`row` as it is if it fits, else cut to `width` cells with a mark in `style` at its end."""
    return window(row, width, 0, style)


def pad(row: Row, width: int, style: Style) -> Row:
    """`row` filled up to `width` cells with blanks in `style`."""
    room = width - cells_of(row)
    return [*row, Segment(" " * room, style)] if room > 0 else row


def strips(rows: Iterable[Row], width: int) -> list[Strip]:
    """Rows as strips of at most `width` cells."""
    done: list[Strip] = []
    for row in rows:
        size = cells_of(row)
        fits = size <= width
        done.append(Strip(row, size) if fits else Strip(crop(row, width, row[-1].style or Style.null())))
    return done


def plain(text: str, width: int, palette: Palette, role: str = "text") -> list[Strip]:
    """Outside text that is no markdown, in one style: cleaned, tabs expanded, wrapped on words."""
    style = palette.style(role)
    lines = clean(text).split("\n")
    rows = [row for line in lines for row in wrap([Segment(expand_tabs(line, TAB), style)], width)]
    return strips(rows, width)
