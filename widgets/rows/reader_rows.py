"""A text of any length as rows: cut into pieces that are drawn one by one, when they come into sight."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from rich.segment import Segment
from rich.style import Style

from widgets.diff_tones import diff_tones
from widgets.transcript.wide_rows import Row, WideRows, rows_for
from widgets.transcript.wrap import TAB, expand_tabs, flat

PIECE = 2_048
"""Characters of a piece. A longer line goes on in the next one, however wide the screen is."""
NEAR = 128
"""Characters before the end of a piece within which a blank is a better place to cut."""
KEPT = 512
"""Pieces whose rows are kept."""

Gutter = Callable[[str], int]
"""How many characters at the start of a line stand alone."""
Show = Callable[[str], str]
"""Makes a piece harmless to show: `clean`, or `reveal`, which spells out what cannot be seen."""


class ReaderRows:
    """The rows of a text for one width. Only pieces that are asked for are shown, cut and kept."""

    def __init__(
        self,
        text: str,
        show: Show,
        marks: re.Pattern[str] | None = None,
        *,
        gutter: int | Gutter = 0,
        diffs: bool = False,
    ) -> None:
        """`gutter` characters at the start of each line stand alone: what wraps stays behind them.

        With `diffs`, lines of unified diffs in the text have the styles of their roles.
        """
        self.text = text
        self.pieces, self.continued = cut(text)
        self.drawn = 0
        """How often a piece was drawn: what a screen costs, counted."""
        self._show = show
        self._marks = marks
        self._gutter = gutter if callable(gutter) else lambda _line: gutter
        self._tones = piece_tones(self.pieces, self.continued) if diffs and "@@ -" in text else {}
        self._inks: Mapping[str, Style] = {}
        self._look = (80, WideRows(wrap=True), Style.null(), Style.null(), Style.null())
        self._kept: dict[int, list[Row]] = {}

    def look(
        self,
        width: int,
        wide: WideRows,
        text: Style,
        marked: Style,
        edge: Style,
        inks: Mapping[str, Style] | None = None,
    ) -> None:
        """How rows are drawn from now on: cells of a row, wrapped or shifted, and the three styles.

        `inks` are the styles of the roles that lines of diffs have; without one, they are as all text.
        """
        look, inks = (max(width, 1), wide, text, marked, edge), inks or {}
        if (look, inks) != (self._look, self._inks):
            self._look, self._inks = look, inks
            self._kept.clear()

    def rows(self, index: int) -> list[Row]:
        """The rows of one piece, none wider than the width; at least one."""
        rows = self._kept.get(index)
        if rows is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            piece = self.pieces[index]
            gutter = 0 if index in self.continued else self._gutter(piece)
            rows = self._kept[index] = self._draw(piece, gutter, self._inks.get(self._tones.get(index, "")))
        return rows

    def height(self, index: int) -> int:
        """How many rows a piece has."""
        return len(self.rows(index))

    def count(self, limit: int) -> int:
        """How many rows there are in all, as far as `limit`."""
        rows = 0
        for index in range(len(self.pieces)):
            rows += self.height(index)
            if rows >= limit:
                return limit
        return rows

    def _draw(self, piece: str, gutter: int, ink: Style | None) -> list[Row]:
        self.drawn += 1
        width, wide, text, marked, edge = self._look
        style = ink or text
        shown = flat(expand_tabs(self._show(piece), TAB))
        lead, row = _parted(list(self._runs(shown, style, marked)), gutter)
        return rows_for(row, width, wide, edge, lead)

    def _runs(self, text: str, style: Style, marked: Style) -> Iterator[Segment]:
        at = 0
        for found in self._marks.finditer(text) if self._marks else ():
            if found.start() > at:
                yield Segment(text[at : found.start()], style)
            yield Segment(found[0], marked)
            at = found.end()
        if at < len(text) or not text:
            yield Segment(text[at:], style)


def piece_tones(pieces: list[str], continued: frozenset[int]) -> dict[int, str]:
    """The roles of the pieces of diffs by their numbers; what goes on with a line has its role. Pure."""
    starts = [index for index in range(len(pieces)) if index not in continued]
    tones: dict[int, str] = {}
    for line, role in diff_tones(pieces[start] for start in starts).items():
        end = starts[line + 1] if line + 1 < len(starts) else len(pieces)
        tones.update(dict.fromkeys(range(starts[line], end), role))
    return tones


def _parted(row: Row, count: int) -> tuple[Row, Row]:
    """The first `count` characters of a row, and the rest."""
    before: Row = []
    for at, segment in enumerate(row):
        if count <= 0:
            return before, row[at:]
        if len(segment.text) > count:
            text, style, _ = segment
            return [*before, Segment(text[:count], style)], [Segment(text[count:], style), *row[at + 1 :]]
        before.append(segment)
        count -= len(segment.text)
    return before, []


def cut(text: str) -> tuple[list[str], frozenset[int]]:
    """The pieces of a text, and which of them go on with the line of the piece before."""
    pieces: list[str] = []
    continued: set[int] = set()
    for line in text.split("\n"):
        if len(line) <= PIECE:
            pieces.append(line)
            continue
        at = 0
        while at < len(line):
            end = at + PIECE
            if end < len(line):
                end = line.rfind(" ", end - NEAR, end) + 1 or end
            if at:
                continued.add(len(pieces))
            pieces.append(line[at:end])
            at = end
    return pieces, frozenset(continued)
