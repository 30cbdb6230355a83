"""Drawn rows that are kept, so that a part is drawn once as long as it is looked at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from textual.strip import Strip

from widgets.transcript.part_types import Part

Key = Part | tuple[Part, int]
"""A part, with the cell from which on its code is shown where that is not the first."""

KEPT_ROWS = 6_000
"""Rows that are kept, in whole parts."""


def alike(rows: list[Strip], before: Sequence[Strip]) -> list[Strip]:
    """`rows`, where one equals its predecessor that itself: all that was made of it serves again."""
    same = [old if new is old or new == old else new for new, old in zip(rows, before, strict=False)]
    return [*same, *rows[len(same) :]]


class RowCache:
    """The rows of parts; those that were asked for longest ago are dropped first."""

    def __init__(self, limit: int = KEPT_ROWS) -> None:
        self._limit = limit
        self._strips: OrderedDict[Key, list[Strip]] = OrderedDict()
        self.rows = 0
        """How many are kept."""

    def get(self, part: Key) -> list[Strip] | None:
        """The rows of a part, None if they are not kept."""
        strips = self._strips.get(part)
        if strips is not None:
            self._strips.move_to_end(part)
        return strips

    def put(self, part: Key, strips: list[Strip]) -> None:
        """Keep the rows of a part that is not kept yet. One part is kept however long it is."""
        self._strips[part] = strips
        self.rows += len(strips)
        while self.rows > self._limit and len(self._strips) > 1:
            self.rows -= len(self._strips.popitem(last=False)[1])

    def drop(self, part: Part) -> None:
        """Drop the rows of a part, so that it is drawn anew."""
        self.rows -= len(self._strips.pop(part, ()))

    def clear(self) -> None:
        """Drop all."""
        self._strips.clear()
        self.rows = 0
