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
        for part, text in self._texts(span.first.item).items():
            begin = _offset(text, above) if part == low else 0
            end = _offset(text, below + 1) - 1 if part == high else len(text)
            if low <= part <= high:
                kept.append(text[begin:end])
            if at >= 0 and part <= high and (at := source.find(text, at)) >= 0:
                start = at + begin if part == low else start
                at += end
        return source[start:at] if at >= 0 else "\n".join(kept)

    def _texts(self, item: int) -> dict[int, str]:
        """Return the texts of the parts of an item that have any."""
        return {part: text for part, each in enumerate(self._document.parts(item)) if (text := text_of(each))}

    def _whole(self, item: int) -> SourceSpan:
        texts = self._texts(item) or {0: ""}
        last = max(texts)
        return SourceSpan(SourceLine(item, min(texts), 0), SourceLine(item, last, texts[last].count("\n")))

    def _around(self, unit: Unit, place: SourceLine) -> SourceSpan:
        """Return the unit in which a line stands."""
        if unit == "message":
            return self._whole(place.item)
        if unit == "line":
            return SourceSpan(place, place)
        last = max(self._texts(place.item).get(place.part, "").count("\n"), place.line)
        return SourceSpan(place._replace(line=0), place._replace(line=last))

    def _beside(self, unit: Unit, place: SourceLine, step: int) -> SourceLine | None:
        """Return the nearest line outside the unit that ends at a line; None at either end of everything."""
        item, part, line = place
        texts = self._texts(item)
        if unit == "line" and 0 <= line + step <= texts.get(part, "").count("\n"):
            return place._replace(line=line + step)
        if unit != "message":
            beyond = [number for number in texts if (number - part) * step > 0]
            if beyond:
                number = beyond[0] if step > 0 else beyond[-1]
                return SourceLine(item, number, 0 if step > 0 else texts[number].count("\n"))
        item += step
        while self._document.has(item):
            if self._texts(item):
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
        return RowPosition(item, part, min(self._rows_above(parts[part], lines[:line]), max(rows - 1, 0)))

    def _rows_above(self, part: Part, lines: list[str]) -> int:
        """Return the rows of a part's first lines."""
        if not lines:
            return 0
        if not isinstance(part, CodePart) and code_in(part) is None:
            return len(self._document.draw(_with_text(part, "\n".join(lines))))
        if self._document.wrap:
            # Empty rows at the end of code are not drawn, so a line stands in for the one below.
            return len(self._document.draw(_with_text(part, "\n".join([*lines, "."])))) - 1
        return len(lines) - (isinstance(part, MarkupPart) and lines[0][:4].lstrip(" ")[:1] in ("`", "~"))


def _offset(text: str, line: int) -> int:
    """Return where a line begins; one past the end plus one for the line after the last."""
    at = 0
    for _ in range(line):
        at = text.find("\n", at) + 1 or len(text) + 1
    return at


def _with_text(part: Part, text: str) -> Part:
    """Return a part with another text, without the colours of a language, which take long."""
    match part:
        case MarkupPart(block=block):
            return MarkupPart(replace(block, source=text, info="" if block.kind == "fence" else block.info))
        case CodePart():
            return CodePart(text)
        case WordsPart():
            return replace(part, text=text)
        case DiffPart():
            return replace(part, diff=text)
        case _:
            return part
