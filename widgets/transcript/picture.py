"""The visible part of the document, with search hits and selection."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import neg
from time import perf_counter
from typing import Any

from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.transcript.document import Document, PlacedRow, RowPosition, RowRun, above, below, height
from widgets.transcript.drawing import (
    BAR,
    GUTTER,
    SCROLLBAR,
    Span,
    badge,
    empty_rows,
    paint_strip,
    thumb_rows,
)
from widgets.transcript.parts import Fold, NoticeItem, PicturePart, folds, text_of
from widgets.transcript.wrap import whole_text

SLICE = 0.001
"""Seconds of work at a time, so that a slice and a frame together stay below 4 ms."""
REST = 0.003
"""Seconds between two slices in which the event loop does other work."""


async def run_in_slices(
    steps: Iterable[object], seconds: float = SLICE, rest: float = REST
) -> AsyncIterator[None]:
    """Run through `steps`, each a small piece of work; yield after every slice, including the last."""
    end = perf_counter() + seconds
    for _ in steps:
        if perf_counter() >= end:
            yield
            await asyncio.sleep(rest)
            end = perf_counter() + seconds
    yield


class Viewport:
    """A window of `height` rows on a document.

    It either keeps the position of its first row, so changes above or below move nothing, or it follows the
    end. It follows whenever the last row is visible.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._top = RowPosition(0, 0, 0)
        self.height = 0
        self.following = True
        self.at_start = False
        """Whether the first row was requested, while earlier items are still being added above it."""

    @property
    def top(self) -> RowPosition:
        """The position of the first row."""
        return self._top

    def runs(self) -> list[RowRun]:
        """Return the visible rows, part by part."""
        document = self._document
        while not self.following:
            self._top = document.start if self.at_start else document.valid(self._top)
            runs = below(document.runs_down(self._top), self.height + 1)
            if height(runs) > self.height:
                return below(runs, self.height)
            if not (self.at_start and document.fetch_earlier()):
                self.to_end()
        runs = above(document.runs_up(document.end), self.height)
        self._top = runs[0].place if runs else document.end
        return runs

    def rows(self) -> list[PlacedRow]:
        """Return the visible rows."""
        return [row for run in self.runs() for row in run.rows()]

    def scroll(self, rows: int) -> None:
        """Move by some rows, down if positive."""
        document = self._document
        self.rows()
        walk = document.down(self._top) if rows > 0 else document.up(self._top)
        passed = list(islice(walk, rows + 1 if rows > 0 else -rows))
        if passed:
            self.to(passed[-1].place)

    def to(self, place: RowPosition) -> None:
        """Put a position at the top, or as close to it as the end allows."""
        self._top = place
        self.following = self.at_start = False

    def to_start(self) -> None:
        """Go to the first row, and stay there while earlier items are fetched."""
        self.to(self._document.start)
        self.at_start = True

    def to_share(self, share: float) -> None:
        """Go to a fraction of the document, from 0 to 1."""
        if not share:
            self.to_start()
            return
        total = self._document.heights.total
        self.to(self._document.place_at(int(share * max(total - self.height, 0))))

    def to_end(self) -> None:
        """Go to the end and follow it."""
        self.following, self.at_start = True, False

    def reveal(self, place: RowPosition, rows: int = 0) -> None:
        """Scroll to show `rows` rows from a position; 0 means up to the end of its item."""
        document = self._document
        shown = self.rows()
        self.at_start = False
        wanted = 0
        for row in islice(document.down(place), self.height):
            if row.place.item != place.item or (rows and wanted == rows):
                break
            wanted += 1
        at = next((at for at, row in enumerate(shown) if row.place == place), None)
        if at is not None and at + wanted <= len(shown):
            return
        if at is None and place < self._top:
            self.to(place)
            return
        before = list(islice(document.up(place), self.height - wanted))
        self.to(before[-1].place if before else place)

    def hold(self) -> None:
        """Stop following while something visible changes."""
        self.rows()
        self.following = self.at_start = False


_PART_BITS = 24
_ROW_BITS = 24
_ORIGIN = 1 << 32
"""Added to the index of an item, because an index can be negative and a coordinate should not be."""


def line_of(place: RowPosition) -> int:
    """Return a number for a position that keeps the order and does not change with rows above."""
    return (place.item + _ORIGIN << _PART_BITS | place.part) << _ROW_BITS | place.row


def place_of(line: int) -> RowPosition:
    """Return the position for a number from `line_of`."""
    rest, row = divmod(line, 1 << _ROW_BITS)
    item, part = divmod(rest, 1 << _PART_BITS)
    return RowPosition(item - _ORIGIN, part, row)


def span_of(selection: Selection, place: RowPosition, length: int) -> tuple[int, int] | None:
    """Return the selected range of a row of `length` characters, without the gutter; None if empty."""
    span = selection.get_span(line_of(place))
    if span is None:
        return None
    start, end = span
    end = length if end == -1 else min(end, length)
    start = max(start, GUTTER)
    return (start, end) if start < end else None


def whole(document: Document, index: int) -> Selection:
    """Return the selection of one whole item."""
    return Selection(
        Offset(0, line_of(document.start_of(index))), Offset(0, line_of(RowPosition(index + 1, 0, 0)))
    )


def selected_text(document: Document, selection: Selection) -> str:
    """Return the selected text without gutter and trailing blanks; wrapped lines of code are joined."""
    if selection.start is None and selection.end is None:
        for _ in document.fill():
            pass
        return "\n\n".join(clean(document.source(index)) for index in range(document.first, document.stop))
    start = place_of(selection.start.y) if selection.start is not None else document.start
    last = selection.end.y if selection.end is not None else line_of(document.end)
    lines: list[str] = []
    for row in document.down(start):
        if line_of(row.place) > last:
            break
        span = span_of(selection, row.place, len(row.strip.text))
        text, joined = whole_text(row.strip, *span) if span else ("", None)
        if joined is not None and lines:
            lines[-1] += " " * joined + text.rstrip()
        else:
            lines.append(text.rstrip())
    return "\n".join(lines).strip("\n")


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """The `number`th hit in an item's text, counted from 0."""

    item: int
    number: int


RowHit = tuple[RowPosition, int]
"""A displayed row, and which of its hits, counted from 0."""


class Finder:
    """A search that ignores case, and the current hit.

    It runs upwards from the end, step by step, so hits are counted from the last: their numbers stay the same
    while more are found above.
    """

    def __init__(self) -> None:
        self.pattern = ""
        self.searching = False
        """Whether there are items still to search."""
        self._run = 0
        self._at = -1
        """The current hit, counted from the last; -1 before the first step."""
        self._match: SearchMatch | None = None
        """The current hit, by its item."""
        self._shown: tuple[object, RowHit | None] = (None, None)
        """The position at which the current hit is displayed, with everything that determines it."""
        self._items: list[int] = []
        """Items with hits, the last first."""
        self._ends: list[int] = []
        """How many hits there are from the end up to each of `_items`, that one included."""
        self._reached = 0
        """The first item that was searched."""
        self._expression: re.Pattern[str] | None = None

    @property
    def count(self) -> int:
        """The number of hits so far."""
        return self._ends[-1] if self._ends else 0

    @property
    def number(self) -> int:
        """The current hit, counted from 1 at the first; 0 before the first step."""
        return self.count - self._at if self._at >= 0 else 0

    def clear(self) -> None:
        """End the search."""
        self._begin("")

    def search(self, document: Document, pattern: str) -> Iterator[None]:
        """Search all items, one per step, until another search begins. An empty pattern finds nothing."""
        self._begin(pattern)
        self._reached = document.stop
        return self._steps(document, self._run)

    def move(self, step: int, start: int) -> SearchMatch | None:
        """Move to the next (1) or previous (-1) hit and return it; the first move begins at item `start`.

        After the last hit comes the first. None if no hit is known.
        """
        at = self._first(step, start) if self._at < 0 else self._at - step
        if not 0 <= at < self.count:
            if self.searching or not self.count:
                return None
            at %= self.count
        self._at = at
        place = bisect_right(self._ends, at)
        self._match = SearchMatch(self._items[place], self._ends[place] - 1 - at)
        return self._match

    def _first(self, step: int, start: int) -> int:
        """Return the first hit to visit, counted from the last; out of range if it is not found yet."""
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
        self._at, self._match = -1, None
        self._items, self._ends = [], []
        self._expression = re.compile(re.escape(pattern), re.IGNORECASE) if pattern else None

    def _steps(self, document: Document, run: int) -> Iterator[None]:
        while self.searching and run == self._run:
            if not document.knows(self._reached - 1) and not document.fetch_earlier():
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
        """Return the hits in a row's text, in characters."""
        if self._expression is None:
            return []
        return [match.span() for match in self._expression.finditer(text, GUTTER)]

    def place(self, document: Document, match: SearchMatch) -> RowPosition:
        """Return the position of a match. Its item is opened if that hides the match."""
        hit = self._find_row(document, match)
        item = document.entry(match.item).item
        if hit is None and folds(item):
            document.fold(match.item, Fold.OPEN)
            hit = self._find_row(document, match)
        return hit[0] if hit else document.start_of(match.item)

    def current_in(self, document: Document, place: RowPosition) -> int:
        """Return which hit of a visible row is the current one, counted from 0; -1 for none."""
        match = self._match
        if match is None or place.item != match.item:
            return -1
        key = (match, document.width, document.wrap, document.entry(match.item).fold)
        if self._shown[0] != key:
            self._shown = (key, self._find_row(document, match))
        hit = self._shown[1]
        return hit[1] if hit and hit[0] == place else -1

    def _find_row(self, document: Document, match: SearchMatch) -> RowHit | None:
        """Return the row of a match, and its number among the row's hits; None if the match is hidden.

        The displayed text can differ from the source; then the part's nearest hit is returned.
        """
        left = match.number
        found: RowHit | None = None
        for part, piece in enumerate(document.parts(match.item)):
            count = self._hits(text_of(piece))
            if not count:
                continue
            rows = [
                (RowPosition(match.item, part, row), number)
                for row, strip in enumerate(document.strips(match.item, part))
                for number, _ in enumerate(self.spans(strip.text))
            ]
            if rows and left < count:
                return rows[min(left, len(rows) - 1)]
            found = rows[-1] if rows else found
            left -= count
        return found if document.entry(match.item).fold is Fold.OPEN else None


Marks = tuple[tuple[Span, ...], int, Span | None]
"""The spans of a row that were found, which of them is visited (-1: none), and the span that is selected."""
_NO_MARKS: Marks = ((), -1, None)


class DocumentPicture:
    """A composer of a document's visible rows, with focus bar, marks, scrollbar and badge."""

    def __init__(self, document: Document, viewport: Viewport, finder: Finder, palette: Palette) -> None:
        self.palette = palette
        self.unread: set[int] = set()
        """Items that were added or grew below while the user was reading above."""
        self.welcomes = True
        """Whether a conversation without a message shows the welcome."""
        self.lessons: Sequence[str] = ()
        """The hints that such a conversation shows, one per row."""
        self.lines: list[Strip] = []
        """The rows as they were composed last."""
        self._document = document
        self._viewport = viewport
        self._finder = finder
        self._runs: list[RowRun] = []
        """The visible rows."""
        self._known: dict[tuple[object, ...], tuple[Strip, Strip]] = {}
        """The document's rows of the last frame, before and after painting.

        The key is a row's identity with everything that determines its look; the row is kept alive for that.
        """

    @property
    def rows(self) -> list[PlacedRow]:
        """The visible rows, each with its position."""
        return [row for run in self._runs for row in run.rows()]

    def compose(self, width: int, height: int, focused: int | None, selection: Selection | None) -> list[int]:
        """Compose the visible rows; return the numbers of changed ones. `focused` is an item's index."""
        before, screen = self.lines, self._in_sight(width, height, focused, selection)
        changed: list[int] = []
        for row, strip in enumerate(screen):
            if row < len(before) and (strip is before[row] or strip == before[row]):
                screen[row] = before[row]
            else:
                changed.append(row)
        self.lines = screen
        return changed

    def pictures(self) -> Iterator[PicturePart]:
        """Yield the images of visible items, including those without rows yet."""
        for item in dict.fromkeys(run.place.item for run in self._runs):
            for part in self._document.parts(item):
                if isinstance(part, PicturePart):
                    yield part

    def line(self, y: int, width: int) -> Strip:
        """Return a row as last composed; an empty one below the last row."""
        return self.lines[y] if y < len(self.lines) else self._blank(width)

    def selectable_line(self, y: int, width: int) -> Strip:
        """Return a row with its text coordinates, which Textual uses for mouse selection."""
        line, rows = self.line(y, width), self.rows
        if y >= len(rows):
            return line
        edge = line.cell_length - SCROLLBAR
        body = line.crop(BAR, edge).apply_offsets(0, line_of(rows[y].place))
        return Strip.join([line.crop(0, BAR), body, line.crop(edge)])

    def _in_sight(
        self, width: int, rows: int, focused: int | None, selection: Selection | None
    ) -> list[Strip]:
        self._runs = self._viewport.runs() if len(self._document) else []
        if self._viewport.following:
            self.unread.clear()
        lines = self._paint_rows(rows, focused, selection) if self._runs else []
        left = rows - len(lines)
        if (
            self.welcomes
            and left
            and all(isinstance(self._document.entries[run.place.item].item, NoticeItem) for run in self._runs)
        ):
            lines += empty_rows(left, width, self.palette, self.lessons)
        else:
            lines += [self._blank(width)] * left
        if message := self._status():
            lines[-1] = badge(lines[-1], message, self.palette)
        return lines

    def _paint_rows(self, rows: int, focused: int | None, selection: Selection | None) -> list[Strip]:
        """Return whole screen rows; an unchanged row is the same strip object as in the last frame."""
        top = self._document.rows_above(self._viewport.top)
        thumb = thumb_rows(top, rows, max(self._document.heights.total, height(self._runs)))
        marked = bool(self._finder.pattern) or selection is not None
        look = id(self.palette)
        before, self._known = self._known, {}
        lines: list[Strip] = []
        for run in self._runs:
            has_keys = run.place.item == focused and (run.place >= self._document.start_of(run.place.item))
            for at, strip in enumerate(run.strips, run.place.row):
                on_thumb = None if thumb is None else len(lines) in thumb
                marks = self._marks(strip, run.place._replace(row=at), selection) if marked else _NO_MARKS
                key = (id(strip), has_keys, on_thumb, marks, look)
                known = before.get(key) or (strip, self._paint(strip, has_keys, on_thumb, marks))
                self._known[key] = known
                lines.append(known[1])
        return lines

    def _marks(self, strip: Strip, place: RowPosition, selection: Selection | None) -> Marks:
        """Return the hits and the selected span of a row."""
        text = strip.text
        selected = span_of(selection, place, len(text)) if selection else None
        found = tuple(self._finder.spans(text))
        return found, self._finder.current_in(self._document, place) if found else -1, selected

    def _paint(self, strip: Strip, focused: bool, thumb: bool | None, marks: Marks) -> Strip:
        found, current, selected = marks
        return paint_strip(
            strip, self.palette, focused=focused, thumb=thumb, found=found, current=current, selected=selected
        )

    def _blank(self, width: int) -> Strip:
        return Strip.blank(width, self.palette.style("text"))

    def _status(self) -> str:
        """Return the text at the right end of the last row."""
        parts: list[str] = []
        if self._finder.pattern:
            count = self._finder.count
            more = " …" if self._finder.searching else ""
            parts.append(f"{self._finder.number:,} of {count:,}{more}" if count else more or "nothing found")
        if self.unread:
            parts.append(f"↓ {len(self.unread)} new")
        return "   ".join(parts)


KEPT_ITEMS = 2_000
"""The number of items in memory, and of those above the visible ones that are loaded in advance."""
SLACK = 200
"""How many more there may be before the first ones are archived."""
_ALL = 1 << 60


class EarlierItems:
    """The control of which items of a document are in memory: visible, searched, or likely to be needed."""

    def __init__(
        self,
        document: Document,
        viewport: Viewport,
        finder: Finder,
        *,
        dragging: Callable[[], bool],
        go_on: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        paint_soon: Callable[[], None],
    ) -> None:
        """`dragging` returns whether the scrollbar is dragged, which may jump anywhere; `go_on` runs
        background work.
        """
        self._document = document
        self._viewport = viewport
        self._finder = finder
        self._dragging = dragging
        self._go_on = go_on
        self._paint_soon = paint_soon
        self._fitting = False
        """Whether items are being loaded or archived."""

    def fit(self) -> None:
        """Fetch the needed items and archive the least recently viewed ones."""
        document = self._document
        if self._fitting:
            return
        fetches = not document.complete and document.first > self._first_wanted()
        if fetches or document.in_memory > KEPT_ITEMS + SLACK:
            self._fitting = True
            self._go_on(self._fit)

    def _first_wanted(self) -> int:
        """Return the first item that should be fetched."""
        if self._finder.searching:
            return self._document.first
        if self._viewport.at_start or self._dragging():
            return -_ALL
        top = self._document.stop if self._viewport.following else self._viewport.top.item
        return top - KEPT_ITEMS

    async def _fit(self) -> None:
        try:
            async for _ in run_in_slices(self._steps()):
                self._paint_soon()
        finally:
            self._fitting = False

    def _steps(self) -> Iterator[None]:
        """Fetch one earlier item and archive one per step, until both are done."""
        document = self._document
        while True:
            fetched = document.first > self._first_wanted() and document.fetch_earlier()
            away = document.in_memory > KEPT_ITEMS and document.archive_item()
            if not fetched and not away:
                return
            yield
