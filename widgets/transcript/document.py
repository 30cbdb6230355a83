"""The conversation as a document: items above each other, drawn where they are seen, estimated elsewhere."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from textual.strip import Strip

from widgets.palette import Palette
from widgets.transcript.drawing import GUTTER, MARGIN, draw
from widgets.transcript.heights import Heights
from widgets.transcript.items import AnswerItem, Fold, Item, UserItem, first_fold, folds, source_of
from widgets.transcript.parts import gap_between, parts_of
from widgets.transcript.pieces import GAP, Part, size_of

KEPT_PARTS = 2_000
"""Drawn parts that are kept."""

Draw = Callable[[Part, int, Palette], list[Strip]]


class Place(NamedTuple):
    """A row, named so that nothing above it can move it: the row of a part of an item."""

    item: int
    part: int
    row: int


class Row(NamedTuple):
    """A row as it is drawn, and where it is from."""

    place: Place
    strip: Strip


class Entry:
    """An item at its place in the document."""

    __slots__ = ("chosen", "closed", "gap", "heights", "item", "live", "parts")

    def __init__(self, item: Item, gap: bool) -> None:
        self.item = item
        self.gap = gap
        """Whether an empty row stands above it."""
        self.chosen: Fold | None = None
        """How much of it a person wants to see; None: what suits it."""
        self.parts: list[Part] | None = None
        """None until somebody looks."""
        self.heights: list[int] = []
        """Rows of its parts: as drawn, or estimated."""
        self.live: Sequence[Strip] = ()
        """Rows of the last part while it is still being written."""
        self.closed = 0
        """How many parts of an answer that is being written are complete."""

    @property
    def fold(self) -> Fold:
        """How much of it is shown."""
        return self.chosen or first_fold(self.item)


class Document:
    """Items, their heights and their drawn rows. Only parts that are looked at are made and drawn.

    Rows are found by place, so heights that turn out different from their estimate
    move nothing on screen; they only make the scrollbar more exact.
    """

    def __init__(self, palette: Palette, draw: Draw = draw) -> None:
        self.palette = palette
        self.width = 80
        self.entries: list[Entry] = []
        self.heights = Heights()
        self._draw = draw
        self._drawn: OrderedDict[Part, list[Strip]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.entries)

    def use(self, palette: Palette) -> None:
        """Draw everything anew in another look."""
        self.palette = palette
        self._drawn.clear()

    def resize(self, width: int) -> None:
        """Draw for rows of `width` cells. Heights stay as estimates until their rows are seen again."""
        if width != self.width:
            self.width = width
            self._drawn.clear()

    def load(self, items: Iterable[Item]) -> None:
        """Replace everything."""
        self.entries.clear()
        before: Item | None = None
        for item in items:
            self.entries.append(Entry(item, gap_between(before, item)))
            before = item
        self.heights = Heights([self._estimate(entry) for entry in self.entries])

    def append(self, item: Item) -> int:
        """Add an item at the end; its index."""
        before = self.entries[-1].item if self.entries else None
        entry = Entry(item, gap_between(before, item))
        self.entries.append(entry)
        self.heights.append(self._estimate(entry))
        return len(self.entries) - 1

    def change(self, index: int, item: Item) -> None:
        """Put another item in the place of one."""
        entry = self.entries[index]
        entry.item, entry.live = item, ()
        self._forget_parts(index)

    def fold(self, index: int, fold: Fold) -> None:
        """Fold or unfold an item at a person's wish."""
        self.entries[index].chosen = fold
        self._forget_parts(index)

    def fold_all(self, fold: Fold) -> None:
        """Fold or unfold every item that folds. Nothing is drawn before it is seen."""
        for entry in self.entries:
            if folds(entry.item) and entry.fold is not fold:
                entry.chosen, entry.parts = fold, None
        self.heights = Heights([self._estimate(entry) for entry in self.entries])

    def open(self, item: Item) -> int:
        """Add an answer that is still to be written; its index."""
        index = self.append(item)
        entry = self.entries[index]
        entry.parts, entry.heights = [], []
        self.write(index, [], [])
        return index

    def write(self, index: int, closed: list[Part], live: list[Strip]) -> None:
        """Go on writing an answer: parts completed since the last time, and the rows of the open one."""
        entry = self.entries[index]
        parts = self.parts(index)
        del parts[entry.closed :], entry.heights[entry.closed :]
        for part in closed:
            self._add(entry, part)
        entry.closed = len(parts)
        entry.live = live
        if live:
            self._add(entry, GAP)
            entry.heights[-1] = len(live)
        self.heights.set(index, sum(entry.heights))

    # --- rows ---

    def parts(self, index: int) -> list[Part]:
        """The parts of an item."""
        entry = self.entries[index]
        if entry.parts is None:
            parts = parts_of(entry.item, entry.fold)
            entry.parts = [GAP, *parts] if entry.gap and parts else parts
            entry.heights = [self._part_estimate(part) for part in entry.parts]
            self.heights.set(index, sum(entry.heights))
        return entry.parts

    def strips(self, index: int, part: int) -> Sequence[Strip]:
        """The drawn rows of one part of an item."""
        parts = self.parts(index)
        entry = self.entries[index]
        if entry.live and part == len(parts) - 1:
            return entry.live
        strips = self.drawn(parts[part])
        change = len(strips) - entry.heights[part]
        if change:
            entry.heights[part] = len(strips)
            self.heights.set(index, self.heights[index] + change)
        return strips

    def draw(self, part: Part) -> list[Strip]:
        """The rows of a part that will soon be another: drawn, and not kept."""
        return self._draw(part, self.width, self.palette)

    def drawn(self, part: Part) -> list[Strip]:
        """The rows of a part, drawn now or before."""
        strips = self._drawn.get(part)
        if strips is None:
            strips = self._drawn[part] = self.draw(part)
            if len(self._drawn) > KEPT_PARTS:
                self._drawn.popitem(last=False)
        else:
            self._drawn.move_to_end(part)
        return strips

    def replace(self, index: int, part: int, new: Part) -> None:
        """Put another part of the same height in the place of one."""
        self.parts(index)[part] = new

    def down(self, place: Place) -> Iterator[Row]:
        """The rows from `place` on."""
        index, part, row = place
        while index < len(self.entries):
            while part < len(self.parts(index)):
                strips = self.strips(index, part)
                for at in range(row, len(strips)):
                    yield Row(Place(index, part, at), strips[at])
                part, row = part + 1, 0
            index, part = index + 1, 0

    def up(self, place: Place) -> Iterator[Row]:
        """The rows above `place`, nearest first."""
        index, part, row = place
        while index >= 0:
            while part >= 0:
                if index < len(self.entries) and part < len(self.parts(index)):
                    strips = self.strips(index, part)
                    for at in range(min(row, len(strips)) - 1, -1, -1):
                        yield Row(Place(index, part, at), strips[at])
                part, row = part - 1, _ALL
            index -= 1
            part = len(self.parts(index)) - 1 if index >= 0 else 0

    @property
    def end(self) -> Place:
        """The place behind the last row."""
        return Place(len(self.entries), 0, 0)

    def start_of(self, index: int) -> Place:
        """The first row of an item, without the gap above it."""
        return Place(index, 1 if self.entries[index].gap else 0, 0)

    def rows_above(self, place: Place) -> int:
        """How many rows stand above a place, as far as known."""
        if place.item >= len(self.entries):
            return self.heights.total
        heights = self.entries[place.item].heights
        return self.heights.before(place.item) + sum(heights[: place.part]) + place.row

    def place_at(self, row: int) -> Place:
        """The place that stands `row` rows below the top, as far as known."""
        index, rest = self.heights.find(max(row, 0))
        if index >= len(self.entries):
            return self.end
        self.parts(index)
        for part, height in enumerate(self.entries[index].heights):
            if rest < height:
                return Place(index, part, rest)
            rest -= height
        return Place(index + 1, 0, 0)

    def valid(self, place: Place) -> Place:
        """The nearest place that exists; folding and rewriting can take one away."""
        if place.item >= len(self.entries):
            return self.end
        if place.part >= len(self.parts(place.item)):
            return self.start_of(place.item)
        rows = len(self.strips(place.item, place.part))
        return place if place.row < rows else place._replace(row=max(rows - 1, 0))

    def source(self, index: int) -> str:
        """The words of an item."""
        return source_of(self.entries[index].item)

    def _add(self, entry: Entry, part: Part) -> None:
        """Add a part at the end of an item, an empty row above it."""
        parts = entry.parts
        assert parts is not None
        new = [GAP, part] if parts or entry.gap else [part]
        parts += new
        entry.heights += [self._part_estimate(part) for part in new]

    def _forget_parts(self, index: int) -> None:
        entry = self.entries[index]
        entry.parts = None
        self.parts(index)

    def _part_estimate(self, part: Part) -> int:
        drawn = self._drawn.get(part)
        if drawn is not None:
            return len(drawn)
        characters, lines = size_of(part)
        return max(characters // self._room, lines) + 1

    def _estimate(self, entry: Entry) -> int:
        """The height of an item: as far as it is known, else guessed from its length."""
        if entry.parts is not None:
            return sum(entry.heights)
        match entry.item:
            case AnswerItem(text=text) | UserItem(text=text):
                return 2 + len(text) // self._room
            case _:
                return 1 + entry.gap

    @property
    def _room(self) -> int:
        return max(self.width - GUTTER - MARGIN, 1)


_ALL = 1 << 60
"""More rows than a part can have."""
