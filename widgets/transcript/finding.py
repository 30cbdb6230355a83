"""Search in a conversation: where the words stand, and which one is looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass

from widgets.transcript.document import Document, Place
from widgets.transcript.drawing import GUTTER
from widgets.transcript.items import Fold, folds
from widgets.transcript.pieces import text_of


@dataclass(frozen=True, slots=True)
class Match:
    """The `number`th hit, counted from 0, in the words of an item."""

    item: int
    number: int


class Finder:
    """A search, without regard to case, and the match one stands on."""

    def __init__(self) -> None:
        self.pattern = ""
        self.matches: list[Match] = []
        self.current = -1
        self._expression: re.Pattern[str] | None = None

    def search(self, document: Document, pattern: str) -> int:
        """Search all items; the number of hits. An empty pattern ends the search."""
        self.pattern = pattern
        self.current = -1
        self.matches = []
        self._expression = re.compile(re.escape(pattern), re.IGNORECASE) if pattern else None
        if self._expression is None:
            return 0
        small = pattern.lower()
        for index in range(len(document)):
            source = document.source(index)
            if small in source.lower():
                count = sum(1 for _ in self._expression.finditer(source))
                self.matches += [Match(index, number) for number in range(count)]
        return len(self.matches)

    def move(self, step: int, start: int) -> Match | None:
        """The next match, or the one before; the first time the one nearest to the item `start`."""
        if not self.matches:
            return None
        if self.current >= 0:
            self.current = (self.current + step) % len(self.matches)
        elif step > 0:
            after = (at for at, match in enumerate(self.matches) if match.item >= start)
            self.current = next(after, 0)
        else:
            before = (at for at in range(len(self.matches) - 1, -1, -1) if self.matches[at].item <= start)
            self.current = next(before, len(self.matches) - 1)
        return self.matches[self.current]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the hits stand in the text of a row, in characters."""
        if self._expression is None:
            return []
        return [match.span() for match in self._expression.finditer(text, GUTTER)]

    def place(self, document: Document, match: Match) -> Place:
        """Where a match is shown. Opens its item if it hides there."""
        place = self._shown(document, match)
        item = document.entries[match.item].item
        if place is None and folds(item):
            document.fold(match.item, Fold.OPEN)
            place = self._shown(document, match)
        return place or document.start_of(match.item)

    def _shown(self, document: Document, match: Match) -> Place | None:
        """The row of a match; what is shown can differ from its source, so the nearest hit of the part."""
        assert self._expression is not None
        left = match.number
        found: Place | None = None
        for part, piece in enumerate(document.parts(match.item)):
            count = sum(1 for _ in self._expression.finditer(text_of(piece)))
            if not count:
                continue
            rows = [
                Place(match.item, part, row)
                for row, strip in enumerate(document.strips(match.item, part))
                for _ in self.spans(strip.text)
            ]
            if rows and left < count:
                return rows[min(left, len(rows) - 1)]
            found = rows[-1] if rows else found
            left -= count
        return found if document.entries[match.item].fold is Fold.OPEN else None
