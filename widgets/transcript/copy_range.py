"""A range of the conversation chosen by keys, in lines of its source rather than rows of the screen."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from textual.geometry import Offset
from textual.selection import Selection

from tools.text.safe_text import clean
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.parts import CodePart, DiffPart, MarkupPart, Part, WordsPart, code_in, text_of
from widgets.transcript.picture import line_of

Unit = Literal["line", "block", "message"]


class SourceLine(NamedTuple):
    """A line of the source of one part of an item."""

    item: int
    part: int
    line: int


class SourceSpan(NamedTuple):
    """The lines from the first to the last."""

    first: SourceLine
    last: SourceLine


class CopyRange:
    """A line, block or message that moves; once held, everything from where that was up to where it is."""

    def __init__(self, document: Document, item: int) -> None:
        """Begin at the first line of an item that has rows."""
        self._document = document
        first = self._whole(item).first
        self._at = SourceSpan(first, first)
        self._held: SourceSpan | None = None

    def hold(self) -> None:
        """Let the range begin here; if it is held already, let it move again."""
        self._held = self._at if self._held is None else None

    def step(self, unit: Unit, step: int) -> None:
        """Go to the next unit (1) or the previous one (-1); a larger one first goes around what is marked."""
        around = self._around(unit, self._at.first)
        if unit == "line" or around == self._at:
            place = self._beside(unit, self._at.last if step > 0 else self._at.first, step)
            around = self._around(unit, place) if place is not None else self._at
        self._at = around

    @property
    def marked(self) -> SourceSpan:
        """All that is marked."""
        held = self._held or self._at
        return SourceSpan(min(held.first, self._at.first), max(held.last, self._at.last))

    def place(self) -> RowPosition:
        """Return the row at the end that moves."""
        grows = self._held is not None and self._at > self._held
        return self._row(self._at.last if grows else self._at.first)

    def selection(self) -> Selection:
        """Return the rows that show what is marked, at least one."""
        first, last = self.marked
        end = self._row(last._replace(line=last.line + 1))
        end = max(end, end._replace(row=self._row(last).row + 1))
        return Selection(Offset(0, line_of(self._row(first))), Offset(0, line_of(end)))

    def text(self) -> str:
        """Return the source of what is marked: all of an item that is marked whole, also if it is folded."""
        first, last = self.marked
        texts: list[str] = []
        for item in range(first.item, last.item + 1):
            whole = self._whole(item)
            span = SourceSpan(max(first, whole.first), min(last, whole.last))
            source = clean(self._document.source(item))
            texts.append(source if span == whole else self._source_of(span, source))
        return "\n\n".join(filter(None, texts))

    def _source_of(self, span: SourceSpan, source: str) -> str:
        """Return a piece of an item's source, with what stands between its parts there if they are found."""
        (_, low, above), (_, high, below) = span
        start, at, kept = 0, 0, list[str]()
        for part, lines in self._lines(span.first.item).items():
            first, last = above if part == low else 0, below + 1 if part == high else len(lines)
            if low <= part <= high:
                kept.append("\n".join(lines[first:last]))
            if at >= 0 and part <= high and (at := source.find("\n".join(lines), at)) >= 0:
                start = at + sum(len(line) + 1 for line in lines[:first]) if part == low else start
                at += len("\n".join(lines[:last]))
        return source[start:at] if at >= 0 else "\n".join(kept)

    def _lines(self, item: int) -> dict[int, list[str]]:
        """Return the lines of the parts of an item that have text."""
        texts = enumerate(map(text_of, self._document.parts(item)))
        return {part: text.split("\n") for part, text in texts if text}

    def _whole(self, item: int) -> SourceSpan:
        lines = self._lines(item) or {0: [""]}
        last = max(lines)
        return SourceSpan(SourceLine(item, min(lines), 0), SourceLine(item, last, len(lines[last]) - 1))

    def _around(self, unit: Unit, place: SourceLine) -> SourceSpan:
        """Return the unit in which a line stands."""
        whole = self._whole(place.item)
        if unit == "message":
            return whole
        if unit == "line":
            return SourceSpan(place, place)
        last = max(len(self._lines(place.item).get(place.part, ())) - 1, place.line)
        return SourceSpan(place._replace(line=0), place._replace(line=last))

    def _beside(self, unit: Unit, place: SourceLine, step: int) -> SourceLine | None:
        """Return the nearest line outside the unit that ends at a line; None at either end of everything."""
        item, part, line = place
        lines = self._lines(item)
        if unit == "line" and 0 <= line + step < len(lines.get(part, ())):
            return place._replace(line=line + step)
        if unit != "message":
            beyond = [number for number in lines if (number - part) * step > 0]
            if beyond:
                number = beyond[0] if step > 0 else beyond[-1]
                return SourceLine(item, number, 0 if step > 0 else len(lines[number]) - 1)
        item += step
        while self._document.has(item):
            if self._lines(item):
                whole = self._whole(item)
                return whole.first if step > 0 else whole.last
            item += step
        return None

    def _row(self, place: SourceLine) -> RowPosition:
        """Return the row where a line begins: as many as the lines above it take when drawn alone."""
        item, part, line = place
        parts = self._document.parts(item)
        if part >= len(parts):
            return self._document.start_of(item)
        rows = len(self._document.strips(item, part))
        lines = text_of(parts[part]).split("\n")
        if line >= len(lines):
            return RowPosition(item, part, rows)
        is_code = isinstance(parts[part], CodePart) or code_in(parts[part]) is not None
        # Rows of code that are empty at its end are not drawn, so a line stands in for this one.
        before = [*lines[:line], "."] if is_code else lines[:line]
        above = len(self._document.draw(_with_text(parts[part], "\n".join(before)))) - is_code if line else 0
        return RowPosition(item, part, min(above, max(rows - 1, 0)))


def _with_text(part: Part, text: str) -> Part:
    """Return a part with another text."""
    match part:
        case MarkupPart(block=block):
            return MarkupPart(replace(block, source=text))
        case WordsPart() | CodePart():
            return replace(part, text=text)
        case DiffPart():
            return replace(part, diff=text)
        case _:
            return part
