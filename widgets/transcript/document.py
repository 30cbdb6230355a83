"""The conversation as a document of items, drawn where visible and estimated elsewhere."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from textual.strip import Strip

from widgets.palette import Palette
from widgets.transcript.archive import Archive, DocumentEntries
from widgets.transcript.drawing import GUTTER, MARGIN, draw
from widgets.transcript.parts import (
    GAP,
    DocumentEntry,
    Fold,
    Item,
    Part,
    RowCache,
    alike,
    code_in,
    folds,
    gap_between,
    parts_of,
    size_of,
    source_of,
)
from widgets.transcript.wrap import WideRows


class Heights:
    """Heights in rows of items that are added at both ends.

    Appended ones count up from 0, prepended ones down, so an index never changes. Reading one is O(1);
    adding, changing, summing and finding a row are O(log n). Each takes 16 bytes.
    """

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._below = _Tree(heights)
        self._above = _Tree()
        """The items above `_middle`, the nearest first."""
        self._middle = 0

    def __len__(self) -> int:
        return len(self._above) + len(self._below)

    def __getitem__(self, index: int) -> int:
        at = index - self._middle
        return self._below[at] if at >= 0 else self._above[~at]

    @property
    def total(self) -> int:
        """The total number of rows."""
        return self._above.total + self._below.total

    def append(self, height: int) -> None:
        """Add a height at the end."""
        self._below.append(height)

    def prepend(self, height: int) -> None:
        """Add a height before the first."""
        self._above.append(height)

    def set(self, index: int, height: int) -> None:
        """Change one height."""
        at = index - self._middle
        if at >= 0:
            self._below.set(at, height)
        else:
            self._above.set(~at, height)

    def before(self, index: int) -> int:
        """Return the number of rows above the item at `index`."""
        at = index - self._middle
        if at >= 0:
            return self._above.total + self._below.before(at)
        return self._above.total - self._above.before(-at)

    def find(self, row: int) -> tuple[int, int]:
        """Return the index of the item that holds `row`, and the row in it; past the end, one past the last.

        Items of height 0 are skipped.
        """
        above = self._above.total
        if row >= above:
            at, rest = self._below.find(row - above)
            return self._middle + at, rest
        at, rest = self._above.find(above - 1 - row)
        return self._middle + ~at, self._above[at] - 1 - rest


class _Tree:
    """A binary indexed tree of heights that grows at one end."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self.heights = array("q", heights)
        self._tree = array("q", [0, *self.heights])
        for index in range(1, len(self._tree)):
            parent = index + (index & -index)
            if parent < len(self._tree):
                self._tree[parent] += self._tree[index]
        self.total = sum(self.heights)

    def __len__(self) -> int:
        return len(self.heights)

    def __getitem__(self, index: int) -> int:
        return self.heights[index]

    def append(self, height: int) -> None:
        self.heights.append(height)
        end = len(self.heights)
        self._tree.append(self.before(end - 1) - self.before(end - (end & -end)) + height)
        self.total += height

    def set(self, index: int, height: int) -> None:
        change = height - self.heights[index]
        if not change:
            return
        self.heights[index] = height
        self.total += change
        node = index + 1
        while node < len(self._tree):
            self._tree[node] += change
            node += node & -node

    def before(self, index: int) -> int:
        rows = 0
        while index:
            rows += self._tree[index]
            index -= index & -index
        return rows

    def find(self, row: int) -> tuple[int, int]:
        index = 0
        step = 1 << len(self.heights).bit_length()
        while step:
            reached = index + step
            if reached <= len(self.heights) and self._tree[reached] <= row:
                index = reached
                row -= self._tree[reached]
            step >>= 1
        return index, row


class RowPosition(NamedTuple):
    """The position of a row by item, part and row, so that nothing above it changes it."""

    item: int
    part: int
    row: int


class PlacedRow(NamedTuple):
    """A drawn row and its position."""

    place: RowPosition
    strip: Strip


class RowRun(NamedTuple):
    """Consecutive rows of one part, with the position of the first."""

    place: RowPosition
    strips: Sequence[Strip]

    def rows(self) -> Iterator[PlacedRow]:
        """Yield the rows, each with its position."""
        item, part, first = self.place
        for at, strip in enumerate(self.strips, first):
            yield PlacedRow(RowPosition(item, part, at), strip)

    def first(self, count: int) -> RowRun:
        """Return the first `count` rows, or all."""
        return self if len(self.strips) <= count else RowRun(self.place, self.strips[:count])

    def last(self, count: int) -> RowRun:
        """Return the last `count` rows, or all."""
        before = len(self.strips) - count
        if before <= 0:
            return self
        item, part, row = self.place
        return RowRun(RowPosition(item, part, row + before), self.strips[before:])


def above(runs: Iterable[RowRun], count: int) -> list[RowRun]:
    """Return the nearest `count` rows of upward runs, in screen order."""
    taken: list[RowRun] = []
    for run in runs if count > 0 else ():
        taken.append(run.last(count))
        count -= len(taken[-1].strips)
        if not count:
            break  # before the next run is drawn
    return taken[::-1]


def below(runs: Iterable[RowRun], count: int) -> list[RowRun]:
    """Return the first `count` rows of downward runs."""
    taken: list[RowRun] = []
    for run in runs if count > 0 else ():
        taken.append(run.first(count))
        count -= len(taken[-1].strips)
        if not count:
            break  # before the next run is drawn
    return taken


def height(runs: Iterable[RowRun]) -> int:
    """Return the number of rows."""
    return sum(len(run.strips) for run in runs)


KEPT_ENTRIES = 1_000
"""Items whose parts are kept. Of others only the height is known until they are seen again."""

Draw = Callable[[Part, int, Palette, WideRows], list[Strip]]


class Document:
    """Items, their heights and their drawn rows. Only parts that are viewed are built and drawn.

    Rows are found by position, so a height that differs from its estimate moves nothing on screen; it only
    makes the scrollbar more exact. Earlier items are fetched on demand, upwards from the last: each gets the
    next index below `first`, and no index changes. Least recently viewed items can be archived and are
    reloaded on access. Their heights stay known, so a jump costs no more than one screen.
    """

    def __init__(self, palette: Palette, draw: Draw = draw) -> None:
        self.palette = palette
        self.width = 80
        self.archive = Archive()
        """The items that were moved out of memory."""
        self.entries = DocumentEntries(self.archive)
        self.heights = Heights()
        self.wrap = False
        """Whether long lines of code wrap; otherwise they are cut, and can be shifted item by item."""
        self._shifts: dict[int, int] = {}
        self._draw = draw
        self._kept = RowCache()
        self._written: tuple[Part, Sequence[Strip]] | None = None
        """The part completed last, and its rows before its completion."""
        self._looked: OrderedDict[int, None] = OrderedDict()
        """The items whose parts are cached, the one made last at the end."""
        self._earlier: Iterator[Item] = iter(())
        self._above: Item | None = None
        """The item above the first, loaded to find out whether an empty row separates them."""
        self._age = 0
        self.folded = Fold.CLOSED
        """The fold last applied to all items, if `_age` is not 0."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def first(self) -> int:
        """The index of the first fetched item."""
        return self.entries.first

    @property
    def stop(self) -> int:
        """The index after the last item."""
        return self.entries.stop

    @property
    def in_memory(self) -> int:
        """The number of items in memory; all others are archived."""
        return self.entries.in_memory

    @property
    def complete(self) -> bool:
        """True if no earlier item remains to be fetched."""
        return self._above is None

    def use(self, palette: Palette) -> None:
        """Draw everything again in another palette."""
        self.palette = palette
        self._kept.clear()

    def resize(self, width: int) -> None:
        """Draw for rows of `width` cells. Heights remain as estimates until the rows are drawn again."""
        if width != self.width:
            self.width = width
            self._kept.clear()

    def wrap_code(self, on: bool) -> None:
        """Wrap or cut long lines of code. Heights remain as estimates until the rows are drawn again."""
        if on != self.wrap:
            self.wrap = on
            self._kept.clear()

    def wide(self, index: int) -> WideRows:
        """Return how an item's code is shown if it is wider than the rows."""
        return WideRows(wrap=True) if self.wrap else WideRows(shift=self._shifts.get(index, 0))

    def shift(self, index: int, cells: int) -> None:
        """Shift an item's code sideways to another first cell. The number of rows does not change."""
        self._shifts[index] = max(cells, 0)

    def load(self, items: Iterable[Item] = (), earlier: Iterable[Item] = ()) -> None:
        """Replace everything with `items`; `earlier` items, newest first, are fetched on demand."""
        self.archive.clear()
        self.entries, self.heights = DocumentEntries(self.archive), Heights()
        self._looked.clear()
        self._shifts.clear()
        self._age = 0
        self._earlier = iter(earlier)
        self._above = next(self._earlier, None)
        for item in items:
            self.append(item)
        if not self.entries:
            self.fetch_earlier()

    def fetch_earlier(self) -> bool:
        """Fetch the item above the first; return False if there is none."""
        item = self._above
        if item is None:
            return False
        self._above = next(self._earlier, None)
        entry = DocumentEntry(item, gap_between(self._above, item))
        self.entries.prepend(entry)
        self.heights.prepend(entry.guess(self._room))
        return True

    def archive_item(self) -> bool:
        """Archive the least recently viewed item; return False if all are being written."""
        index = self.entries.put_away()
        if index is None:
            return False
        self._looked.pop(index, None)
        return True

    def fill(self) -> Iterator[None]:
        """Fetch all earlier items, one per step."""
        while self.fetch_earlier():
            yield

    def has(self, index: int) -> bool:
        """Return whether an item has this index; earlier items are fetched as needed."""
        while index < self.first and self.fetch_earlier():
            pass
        return self.first <= index < self.stop

    def entry(self, index: int) -> DocumentEntry:
        """Return an item with its state, after updating whether it is folded; fetch it if not yet loaded."""
        if index < self.first:
            self.has(index)
        entry = self.entries[index]
        if entry.age != self._age:
            entry.age = self._age
            if folds(entry.item) and entry.fold is not self.folded:
                entry.chosen, entry.parts = self.folded, None
        return entry

    def append(self, item: Item) -> int:
        """Add an item at the end; return its index."""
        before = self.entries.peek(self.stop - 1) if self.entries else self._above
        entry = DocumentEntry(item, gap_between(before, item), self._age)
        self.entries.append(entry)
        self.heights.append(entry.guess(self._room))
        return self.stop - 1

    def change(self, index: int, item: Item) -> None:
        """Replace an item."""
        entry = self.entry(index)
        entry.item, entry.live, entry.open = item, (), False
        self._forget_parts(index)

    def fold(self, index: int, fold: Fold) -> None:
        """Fold or unfold an item at the user's request."""
        self.entry(index).chosen = fold
        self._forget_parts(index)

    def fold_all(self, fold: Fold) -> None:
        """Fold or unfold all items that can fold, each when it is next viewed."""
        self._age += 1
        self.folded = fold
        for index in self._looked:
            entry = self.entry(index)
            if entry.parts is None:
                self.heights.set(index, entry.guess(self._room))

    def open(self, item: Item) -> int:
        """Add an answer that is still being written; return its index."""
        index = self.append(item)
        entry = self.entries[index]
        entry.parts, entry.heights, entry.open = [], [], True
        self.write(index, [], [])
        return index

    def close(self, index: int, closed: list[Part], item: Item) -> None:
        """Complete an answer with its last parts and its final item."""
        self.write(index, closed, [])
        entry = self.entries[index]
        entry.item, entry.open = item, False
        self._look(index)

    def write(self, index: int, closed: list[Part], live: list[Strip]) -> None:
        """Update an unfinished answer: newly completed parts, and the rows of the open one."""
        entry = self.entry(index)
        parts = self.parts(index)
        del parts[entry.closed :], entry.heights[entry.closed :]
        for part in closed:
            self._add(entry, part)
        if closed and entry.live:
            self._written = (closed[0], entry.live)
        entry.closed = len(parts)
        entry.live = live if closed else alike(live, entry.live)
        if live:
            self._add(entry, GAP)
            entry.heights[-1] = len(live)
        self.heights.set(index, sum(entry.heights))

    # --- rows ---

    def parts(self, index: int) -> list[Part]:
        """Return the parts of an item."""
        entry = self.entry(index)
        if entry.parts is None:
            parts = parts_of(entry.item, entry.fold)
            entry.parts = [GAP, *parts] if entry.gap and parts else parts
            entry.heights = [self._part_estimate(part) for part in entry.parts]
            self.heights.set(index, sum(entry.heights))
            self._look(index)
        return entry.parts

    def code_blocks(self, index: int) -> list[str]:
        """Return the contents of an item's blocks of code, in order."""
        return [code for part in self.parts(index) if (code := code_in(part)) is not None]

    def strips(self, index: int, part: int) -> Sequence[Strip]:
        """Return the drawn rows of one part of an item."""
        entry = self.entry(index)
        parts = self.parts(index) if entry.parts is None else entry.parts
        if entry.live and part == len(parts) - 1:
            return entry.live
        strips = self.draw_cached(parts[part], 0 if self.wrap else self._shifts.get(index, 0))
        change = len(strips) - entry.heights[part]
        if change:
            entry.heights[part] = len(strips)
            self.heights.set(index, self.heights[index] + change)
        return strips

    def draw(self, part: Part, shift: int = 0) -> list[Strip]:
        """Draw a part without caching its rows, as it will change soon."""
        return self._draw(part, self.width, self.palette, WideRows(self.wrap, shift))

    def draw_cached(self, part: Part, shift: int = 0) -> list[Strip]:
        """Return the rows of a part, cached, with its code shifted by `shift` cells."""
        key = (part, shift) if shift else part
        strips = self._kept.get(key)
        if strips is None:
            strips = self.draw(part, shift)
            if self._written is not None and part is self._written[0]:
                strips, self._written = alike(strips, self._written[1]), None
            self._kept.store(key, strips)
        return strips

    def forget(self, part: Part) -> None:
        """Drop a part's cached rows, so that it is drawn again."""
        self._kept.drop(part)

    def replace(self, index: int, part: int, new: Part) -> None:
        """Replace a part with one of the same height."""
        self.parts(index)[part] = new

    def down(self, place: RowPosition) -> Iterator[PlacedRow]:
        """Yield the rows from `place` on."""
        for run in self.runs_down(place):
            yield from run.rows()

    def up(self, place: RowPosition) -> Iterator[PlacedRow]:
        """Yield the rows above `place`, nearest first."""
        for run in self.runs_up(place):
            yield from reversed(list(run.rows()))

    def runs_down(self, place: RowPosition) -> Iterator[RowRun]:
        """Yield the rows from `place` on, part by part."""
        index, first, row = place
        while index < self.stop:
            for part in range(first, len(self.parts(index))):
                strips = self.strips(index, part)
                if row < len(strips):
                    yield RowRun(RowPosition(index, part, row), strips[row:] if row else strips)
                row = 0
            index, first, row = index + 1, 0, 0

    def runs_up(self, place: RowPosition) -> Iterator[RowRun]:
        """Yield the rows above `place`, part by part, nearest first."""
        index, last, row = place
        while index == self.stop or self.has(index):
            count = len(self.parts(index)) if index < self.stop else 0
            for part in range(min(last, count - 1), -1, -1):
                strips = self.strips(index, part)
                if part == last:
                    strips = strips[:row]
                if strips:
                    yield RowRun(RowPosition(index, part, 0), strips)
            index, last = index - 1, _ALL

    @property
    def end(self) -> RowPosition:
        """Return the position after the last row."""
        return RowPosition(self.stop, 0, 0)

    @property
    def start(self) -> RowPosition:
        """Return the position of the first fetched row."""
        return RowPosition(self.first, 0, 0)

    def start_of(self, index: int) -> RowPosition:
        """Return the first row of an item, without the gap above it."""
        return RowPosition(index, 1 if self.entry(index).gap else 0, 0)

    def rows_above(self, place: RowPosition) -> int:
        """Return the number of rows above a position, some of them estimated."""
        if place.item >= self.stop:
            return self.heights.total
        heights = self.entry(place.item).heights
        return self.heights.before(place.item) + sum(heights[: place.part]) + place.row

    def place_at(self, row: int) -> RowPosition:
        """Return the position `row` rows below the top, by partly estimated heights."""
        index, rest = self.heights.find(max(row, 0))
        if index >= self.stop:
            return self.end
        self.parts(index)
        for part, height in enumerate(self.entries[index].heights):
            if rest < height:
                return RowPosition(index, part, rest)
            rest -= height
        return RowPosition(index + 1, 0, 0)

    def valid(self, place: RowPosition) -> RowPosition:
        """Return the nearest existing position; folding and rewriting can remove one."""
        if place.item >= self.stop:
            return self.end
        if not self.has(place.item):
            return self.start
        if place.part >= len(self.parts(place.item)):
            return self.start_of(place.item)
        rows = len(self.strips(place.item, place.part))
        return place if place.row < rows else place._replace(row=max(rows - 1, 0))

    def source(self, index: int) -> str:
        """Return the text of an item."""
        return source_of(self.peek(index))

    def knows(self, index: int) -> bool:
        """Return whether an item has this index, without fetching earlier ones."""
        return self.first <= index < self.stop

    def peek(self, index: int) -> Item:
        """Return an item's last known state without loading it from the archive."""
        return self.entries.peek(index) if self.knows(index) else self.entry(index).item

    def _add(self, entry: DocumentEntry, part: Part) -> None:
        """Add a part at the end of an item, with an empty row above it."""
        parts = entry.parts
        assert parts is not None
        new = [GAP, part] if parts or entry.gap else [part]
        parts += new
        entry.heights += [self._part_estimate(part) for part in new]

    def _look(self, index: int) -> None:
        """Mark an item's parts as used, and drop the least recently used ones."""
        self._looked[index] = None
        self._looked.move_to_end(index)
        while len(self._looked) > KEPT_ENTRIES:
            entry = self.entries.here(self._looked.popitem(last=False)[0])
            if entry is not None and not entry.open:
                entry.parts, entry.heights = None, []

    def _forget_parts(self, index: int) -> None:
        entry = self.entries[index]
        entry.parts = None
        self.parts(index)

    def _part_estimate(self, part: Part) -> int:
        drawn = self._kept.get(part)
        if drawn is not None:
            return len(drawn)
        characters, lines = size_of(part)
        return max(characters // self._room, lines) + 1

    @property
    def _room(self) -> int:
        return max(self.width - GUTTER - MARGIN, 1)


_ALL = 1 << 60
"""A number of parts greater than that of any item."""
