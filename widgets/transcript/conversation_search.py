"""Search in a conversation: where the words stand, and which one is looked at."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import neg

from widgets.transcript.document import Document, RowPosition
from widgets.transcript.drawing import GUTTER
from widgets.transcript.items import Fold, folds
from widgets.transcript.part_types import text_of


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """The `number`th hit, counted from 0, in the words of an item."""

    item: int
    number: int


class Finder:
    """A search, without regard to case, and the hit one stands on.

    It goes upwards from the end, step by step, so hits are counted from the last
    one: their numbers stay while more are found above.
    """

    def __init__(self) -> None:
        self.pattern = ""
        self.searching = False
        """Whether there is more to be searched."""
        self._run = 0
        self._at = -1
        """The hit one stands on, counted from the last; -1 before the first step."""
        self._items: list[int] = []
        """Items with hits, the last first."""
        self._ends: list[int] = []
        """How many hits there are from the end up to each of `_items`, that one included."""
        self._reached = 0
        """The first item that was searched."""
        self._expression: re.Pattern[str] | None = None

    @property
    def count(self) -> int:
        """Hits so far."""
        return self._ends[-1] if self._ends else 0

    @property
    def number(self) -> int:
        """The hit one stands on, counted from 1 at the first; 0 before the first step."""
        return self.count - self._at if self._at >= 0 else 0

    def clear(self) -> None:
        """End the search."""
        self._begin("")

    def search(self, document: Document, pattern: str) -> Iterator[None]:
        """Search all items, one with each step, until another search begins. An empty pattern: nothing."""
        self._begin(pattern)
        self._reached = document.stop
        return self._steps(document, self._run)

    def move(self, step: int, start: int) -> SearchMatch | None:
        """The next hit, or the one before; the first time the one nearest to the item `start`.

        After the last comes the first. None where there is no hit, or none is known yet.
        """
        at = self._first(step, start) if self._at < 0 else self._at - step
        if not 0 <= at < self.count:
            if self.searching or not self.count:
                return None
            at %= self.count
        self._at = at
        place = bisect_right(self._ends, at)
        return SearchMatch(self._items[place], self._ends[place] - 1 - at)

    def _first(self, step: int, start: int) -> int:
        """The hit to begin with, counted from the last; outside of those known if it is not among them."""
        if step < 0:
            below = bisect_left(self._items, -start, key=neg)
            return self._ends[below - 1] if below else 0
        if self.searching and self._reached > start:
            return -1
        below = bisect_right(self._items, -start, key=neg)
        return self._ends[below - 1] - 1 if below else -1

    def _begin(self, pattern: str) -> None:
        self._run += 1
        self.pattern, self.searching = pattern, bool(pattern)
        self._at = -1
        self._items, self._ends = [], []
        self._expression = re.compile(re.escape(pattern), re.IGNORECASE) if pattern else None

    def _steps(self, document: Document, run: int) -> Iterator[None]:
        while self.searching and run == self._run:
            if not document.knows(self._reached - 1) and not document.more():
                break
            self._reached -= 1
            if count := self._hits(document.source(self._reached)):
                self._items.append(self._reached)
                self._ends.append(self.count + count)
            yield
        if run == self._run:
            self.searching = False

    def _hits(self, text: str) -> int:
        return text.lower().count(self.pattern.lower())

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the hits stand in the text of a row, in characters."""
        if self._expression is None:
            return []
        return [match.span() for match in self._expression.finditer(text, GUTTER)]

    def place(self, document: Document, match: SearchMatch) -> RowPosition:
        """Where a match is shown. Opens its item if it hides there."""
        place = self._shown(document, match)
        item = document.entry(match.item).item
        if place is None and folds(item):
            document.fold(match.item, Fold.OPEN)
            place = self._shown(document, match)
        return place or document.start_of(match.item)

    def _shown(self, document: Document, match: SearchMatch) -> RowPosition | None:
        """The row of a match; what is shown can differ from its source, so the nearest hit of the part."""
        left = match.number
        found: RowPosition | None = None
        for part, piece in enumerate(document.parts(match.item)):
            count = self._hits(text_of(piece))
            if not count:
                continue
            rows = [
                RowPosition(match.item, part, row)
                for row, strip in enumerate(document.strips(match.item, part))
                for _ in self.spans(strip.text)
            ]
            if rows and left < count:
                return rows[min(left, len(rows) - 1)]
            found = rows[-1] if rows else found
            left -= count
        return found if document.entry(match.item).fold is Fold.OPEN else None
