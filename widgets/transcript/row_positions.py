"""Origins of the rows of a document: places, single rows, and rows of one part below each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from textual.strip import Strip


class RowPosition(NamedTuple):
    """A row, named so that nothing above it can move it: the row of a part of an item."""

    item: int
    part: int
    row: int


class PlacedRow(NamedTuple):
    """A row as it is drawn, and where it is from."""

    place: RowPosition
    strip: Strip


class RowRun(NamedTuple):
    """Rows of one part that stand below each other, by the place of the first."""

    place: RowPosition
    strips: Sequence[Strip]

    def rows(self) -> Iterator[PlacedRow]:
        """The rows, each with its own place."""
        item, part, first = self.place
        for at, strip in enumerate(self.strips, first):
            yield PlacedRow(RowPosition(item, part, at), strip)

    def first(self, count: int) -> RowRun:
        """The first `count` rows, or all there are."""
        return self if len(self.strips) <= count else RowRun(self.place, self.strips[:count])

    def last(self, count: int) -> RowRun:
        """The last `count` rows, or all there are."""
        before = len(self.strips) - count
        if before <= 0:
            return self
        item, part, row = self.place
        return RowRun(RowPosition(item, part, row + before), self.strips[before:])


def above(runs: Iterable[RowRun], count: int) -> list[RowRun]:
    """The nearest `count` rows of runs that go upwards, in their order on the screen."""
    taken: list[RowRun] = []
    for run in runs if count > 0 else ():
        taken.append(run.last(count))
        count -= len(taken[-1].strips)
        if not count:
            break  # before the next run is drawn
    return taken[::-1]


def below(runs: Iterable[RowRun], count: int) -> list[RowRun]:
    """The first `count` rows of runs that go downwards."""
    taken: list[RowRun] = []
    for run in runs if count > 0 else ():
        taken.append(run.first(count))
        count -= len(taken[-1].strips)
        if not count:
            break  # before the next run is drawn
    return taken


def height(runs: Iterable[RowRun]) -> int:
    """How many rows there are."""
    return sum(len(run.strips) for run in runs)
