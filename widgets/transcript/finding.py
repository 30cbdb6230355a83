"""Search in a conversation: where the words stand, and which one is looked at."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
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
    """A search, without regard to case, and the hit one stands on."""

    def __init__(self) -> None:
        self.pattern = ""
        self.current = -1
        """The hit one stands on, counted from 0; -1 before the first step."""
        self._items: list[int] = []
        self._ends: list[int] = []
        """How many hits there are up to the end of each of `_items`."""
        self._expression: re.Pattern[str] | None = None

    @property
    def count(self) -> int:
        """Hits in all."""
        return self._ends[-1] if self._ends else 0

    def search(self, document: Document, pattern: str) -> int:
        """Search all items; the number of hits. An empty pattern ends the search."""
        self.pattern = pattern
        self.current = -1
        self._items, self._ends = [], []
        self._expression = re.compile(re.escape(pattern), re.IGNORECASE) if pattern else None
        if not pattern:
            return 0
        for index in range(len(document)):
            if count := self._hits(document.source(index)):
                self._items.append(index)
                self._ends.append(self.count + count)
        return self.count

    def move(self, step: int, start: int) -> Match | None:
        """The next hit, or the one before; the first time the one nearest to the item `start`."""
        if not self.count:
            return None
        if self.current >= 0:
            self.current = (self.current + step) % self.count
        elif step > 0:
            at = bisect_left(self._items, start)
            self.current = (self._ends[at - 1] if at else 0) % self.count
        else:
            at = bisect_right(self._items, start)
            self.current = (self._ends[at - 1] if at else self.count) - 1
        at = bisect_right(self._ends, self.current)
        return Match(self._items[at], self.current - (self._ends[at - 1] if at else 0))

    def _hits(self, text: str) -> int:
        return text.lower().count(self.pattern.lower())

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
        left = match.number
        found: Place | None = None
        for part, piece in enumerate(document.parts(match.item)):
            count = self._hits(text_of(piece))
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
