"""Moving around in a document: keys, mouse, folds and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from time import perf_counter
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tools.safe_text import clean
from widgets.chunked import SLICE, chunked
from widgets.transcript.document import RowPosition
from widgets.transcript.items import Fold, Item, UserItem, folds
from widgets.transcript.painting import SCROLLBAR
from widgets.transcript.surface import DocumentSurface
from widgets.transcript.wide_rows import beyond

SHIFT = 8
"""Cells of one step sideways."""
WHEEL = 3
"""Rows of one notch of the mouse wheel."""


class Browser(DocumentSurface, can_focus=True):
    """A document that a person reads: scrolls, folds, searches, copies.

    A click opens or folds and leaves the keys where they are: most likely the person types on.
    """

    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Previous item", show=False, id="transcript.up"),
        Binding("down,j", "move(1)", "Next item", show=False, id="transcript.down"),
        Binding("enter", "open", "Open", id="transcript.open"),
        Binding("space", "fold", "Fold", id="transcript.fold"),
        Binding("o", "full_screen", "Full screen", id="transcript.full_screen"),
        Binding("t", "place", "In the timeline", show=False, id="transcript.place"),
        Binding("y", "copy", "Copy", id="transcript.copy"),
        Binding("n", "find(1)", "Next match", show=False, id="transcript.find_next"),
        Binding("N", "find(-1)", "Previous match", show=False, id="transcript.find_previous"),
        Binding("left_square_bracket", "user(-1)", "Your last message", show=False, id="transcript.user_up"),
        Binding(
            "right_square_bracket", "user(1)", "Your next message", show=False, id="transcript.user_down"
        ),
        Binding("left,h", "shift(-1)", "Scroll code left", show=False, id="transcript.left"),
        Binding("right,l", "shift(1)", "Scroll code right", show=False, id="transcript.right"),
        Binding("w", "wrap", "Wrap code", show=False, id="transcript.wrap"),
        Binding("g,home", "top", "Start", show=False, id="transcript.top"),
        Binding("G,end", "end", "End", show=False, id="transcript.end"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="transcript.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="transcript.page_down"),
    ]

    @dataclass
    class Copied(Message, namespace="transcript"):
        """The person wants this text in the clipboard."""

        text: str

    @dataclass
    class Opened(Message, namespace="transcript"):
        """The person wants to see this item on the full screen."""

        item: Item

    @dataclass
    class Placed(Message, namespace="transcript"):
        """The person wants to see where a message stands in the tree of the session; 0: at its end."""

        node: int

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._on_scrollbar = False
        self._wanted_step = 0
        """The step to a hit that is not known yet; 0: none."""
        self._seeking: Iterator[None] | None = None
        """The search for a place that was begun last."""

    @property
    def dragging(self) -> bool:
        """Whether the mouse holds the scrollbar."""
        return self._on_scrollbar and self.app.mouse_captured is self

    async def find(self, pattern: str, *, go: bool = False) -> int | None:
        """Search all items without regard to case; the number of hits, None if another search took over.

        Hits can be visited while more are counted. An empty pattern ends the search. With `go`, the
        first hit in the focused item or below it is visited as soon as it is known.
        """
        self.settle()
        self._wanted_step = int(go)
        steps = self.finder.search(self.document, pattern)
        async for _ in chunked(steps):
            if self._wanted_step:
                self._find(self._wanted_step)
            self.repaint()
        return self.finder.count if self.finder.pattern == pattern and not self.finder.searching else None

    async def go_to(self, wanted: Callable[[Item], bool], words: str = "") -> bool:
        """Go to the last item that is `wanted`, open it and light up `words` in it; False: there is none."""
        self.settle()
        found: int | None = None

        def look() -> Iterator[None]:
            nonlocal found
            index = self.document.stop - 1
            while found is None and self.document.has(index):
                found = index if wanted(self.document.peek(index)) else None
                index -= 1
                yield

        async for _ in chunked(look()):
            pass
        if found is None:
            return False
        self._focused = found
        if folds(self.document.peek(found)):
            self.document.fold(found, Fold.OPEN)
        self._viewport.to(self.document.start_of(found))
        self._viewport.scroll(-self.size.height // 4)
        self.repaint()
        if words and words.lower() in self.document.source(found).lower():
            self.run_worker(partial(self.find, words, go=True), group="find", exclusive=True)
        return True

    def find_next(self) -> None:
        """Go to the next hit; after the last comes the first."""
        self._find(1)

    def find_previous(self) -> None:
        """Go to the hit before."""
        self._find(-1)

    def fold_all(self) -> None:
        """Fold whatever folds."""
        self._fold_all(Fold.CLOSED)

    def unfold_all(self) -> None:
        """Open whatever folds."""
        self._fold_all(Fold.OPEN)

    def jump_to_end(self) -> None:
        """Go to the end and follow it."""
        self._viewport.to_end()
        self.repaint()

    def jump_user(self, step: int) -> None:
        """Go to the message of the person before the first row (-1), or after it (1)."""
        if not len(self.document):
            return
        self._viewport.rows()
        top = self._viewport.top
        here = top.item if self._focused is None else self._focused
        if step < 0 and self._focused is None and top > self.document.start_of(here):
            here += 1
        index = here + step
        self._seek(self._to_user(index, step))
        self.repaint()

    def _to_user(self, index: int, step: int) -> Iterator[None]:
        """Look for a message of the person from `index` on, one item with each step, and go there."""
        while self.document.has(index):
            if isinstance(self.document.peek(index), UserItem):
                self._focused = index
                self._viewport.to(self.document.start_of(index))
                self.repaint()
                return
            index += step
            yield

    def _seek(self, steps: Iterator[None]) -> None:
        """Look for something: at once if it is near, else in slices until the person goes elsewhere."""
        self._seeking = steps
        end = perf_counter() + SLICE
        for _ in steps:
            if perf_counter() >= end:
                self.run_worker(partial(self._seek_on, steps, self._where))
                return

    async def _seek_on(self, steps: Iterator[None], before: tuple[int | None, RowPosition | None]) -> None:
        async for _ in chunked(takewhile(lambda _: self._seeking is steps and self._where == before, steps)):
            pass

    @property
    def _where(self) -> tuple[int | None, RowPosition | None]:
        """The item and the place one is at; no place at the end, which moves by itself."""
        return self._focused, None if self.following else self._viewport.top

    def scroll_rows(self, rows: int) -> None:
        """Move by some rows, down if positive."""
        self._viewport.scroll(rows)
        self.repaint()

    def wrap_code(self, on: bool) -> None:
        """Wrap long lines of code, or cut them at the right edge."""
        if on == self.document.wrap:
            return
        self._viewport.hold()
        self.document.wrap_code(on)
        self._redraw_code()

    def shift_code(self, index: int, cells: int) -> None:
        """Scroll the code of an item sideways, right if positive, no further than the rows in sight go."""
        if self.document.wrap:
            return
        if cells > 0:
            rows = (row.strip for row in self._rows if row.place.item == index)
            # The last hidden cell takes the place of the mark.
            cells = min(cells, max(map(beyond, rows), default=0) - 1)
            if cells <= 0:
                return
        before = self.document.wide(index).shift
        after = max(before + cells, 0)
        if after != before:
            self.document.shift(index, after)
            self._redraw_code()

    def _redraw_code(self) -> None:
        if self.text_selection is not None:
            # It counts characters as they were shown.
            self.screen.clear_selection()
        self.redraw_open()
        self.repaint()

    def copy_block(self) -> None:
        """Ask for the source of the focused item to be copied; without one, that of the last item."""
        if not len(self.document):
            return
        self.settle()
        index = self.document.stop - 1 if self._focused is None else self._focused
        self.post_message(self.Copied(clean(self.document.source(index))))

    def toggle(self, index: int, *, further: bool = False) -> None:
        """Fold or unfold an item. `further`: what opened itself opens further instead of folding."""
        entry = self.document.entry(index)
        if not folds(entry.item):
            return
        self.settle()
        closed = entry.fold is Fold.CLOSED or (further and entry.fold is Fold.PEEK)
        self._viewport.hold()
        self.document.fold(index, Fold.OPEN if closed else Fold.CLOSED)
        if index == self._viewport.top.item and not closed:
            # Its rows may be gone: its head is what stays.
            self._viewport.reveal(self.document.start_of(index), 1)
        elif closed:
            self._viewport.reveal(self.document.start_of(index))
        self.repaint()

    def watch_has_focus(self, has_focus: bool) -> None:
        # The events of focus come before it is known who has it.
        super().watch_has_focus(has_focus)
        self.repaint()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1, sideways=event.shift)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1, sideways=event.shift)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._wheel(event, -1, sideways=True)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._wheel(event, 1, sideways=True)

    def _wheel(self, event: events.MouseEvent, step: int, *, sideways: bool) -> None:
        event.stop()
        if not sideways:
            self.scroll_rows(step * WHEEL)
        elif event.y < len(self._rows):
            self.shift_code(self._rows[event.y].place.item, step * SHIFT)

    @property
    def allow_select(self) -> bool:
        """Dragging the scrollbar selects nothing."""
        return not self._on_scrollbar

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self._over_scrollbar(event):
            self._on_scrollbar = True
            self.capture_mouse()
            self._drag(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._drag(event)
            return
        self._on_scrollbar = self._over_scrollbar(event)
        if event.button == 1 and self.text_selection is not None and event.y in (0, self.size.height - 1):
            self.scroll_rows(-1 if event.y == 0 else 1)

    def on_mouse_up(self) -> None:
        self._on_scrollbar = False
        self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        if self._over_scrollbar(event) or self.text_selection is not None or event.y >= len(self._rows):
            return
        place = self._rows[event.y].place
        start = self.document.start_of(place.item)
        if place < start:
            return
        self._focused = place.item
        closed = self.document.entry(place.item).fold is not Fold.OPEN
        # The head folds and unfolds; a row below it only opens, for its text is there to be selected.
        if event.chain == 1 and (place == start or closed):
            self.toggle(place.item, further=place != start)
        self.repaint()

    def action_move(self, step: int) -> None:
        """Move the focus between items."""
        index = self._focused
        if index is None:
            # The first step lands on what is nearest to the prompt.
            index = self._rows[-1].place.item - step if self._rows else 0
        index += step
        while self.document.has(index) and not self.document.parts(index):
            index += step
        if self.document.has(index):
            self._focused = index
            self._viewport.reveal(self.document.start_of(index))
        self.repaint()

    def action_open(self) -> None:
        """Open the focused item, further if it opened itself; fold it if it is open."""
        if self._focused is not None:
            self.toggle(self._focused, further=True)

    def action_fold(self) -> None:
        """Fold the focused item, or open it if it is folded."""
        if self._focused is not None:
            self.toggle(self._focused)

    def action_shift(self, step: int) -> None:
        """Scroll code sideways: that of the focused item, else of the first in sight that is cut."""
        index = self._focused
        if index is None:
            index = next((row.place.item for row in self._rows if beyond(row.strip)), None)
            self._focused = index
        if index is not None:
            self.shift_code(index, step * SHIFT)

    def action_wrap(self) -> None:
        """Wrap all code, or cut it."""
        self.wrap_code(not self.document.wrap)

    def action_full_screen(self) -> None:
        """Ask for the focused item on the full screen."""
        if self._focused is not None:
            self.settle()
            self.post_message(self.Opened(self.document.entry(self._focused).item))

    def action_place(self) -> None:
        """Ask for the place of the focused message, or of the next one before it."""
        index = self.document.stop - 1 if self._focused is None else self._focused
        while self._focused is not None and self.document.has(index):
            if node := getattr(self.document.peek(index), "node", 0):
                self.post_message(self.Placed(node))
                return
            index -= 1
        self.post_message(self.Placed(0))

    def action_copy(self) -> None:
        """Copy the source of the focused item."""
        self.copy_block()

    def action_find(self, step: int) -> None:
        """Go to the next match, or the one before."""
        self._find(step)

    def action_user(self, step: int) -> None:
        """Go to another message of the person."""
        self.jump_user(step)

    def action_top(self) -> None:
        """Go to the start."""
        self._viewport.to_start()
        self.repaint()

    def action_end(self) -> None:
        """Go to the end and follow it."""
        self.jump_to_end()

    def action_page(self, step: int) -> None:
        """Move by a screen, but for two rows that stay to read on from."""
        self.scroll_rows(step * max(self.size.height - 2, 1))

    def _find(self, step: int) -> None:
        here = self._viewport.top.item if self._focused is None else self._focused
        match = self.finder.move(step, here)
        self._wanted_step = step if match is None and self.finder.searching else 0
        if match is not None:
            self._focused = match.item
            self._viewport.hold()
            self._viewport.reveal(self.finder.place(self.document, match), 1)
        self.repaint()

    def _fold_all(self, fold: Fold) -> None:
        self.settle()
        self._viewport.hold()
        self.document.fold_all(fold)
        self.repaint()

    def _over_scrollbar(self, event: events.MouseEvent) -> bool:
        return event.x >= self.size.width - SCROLLBAR and self.document.heights.total > self.size.height

    def _drag(self, event: events.MouseEvent) -> None:
        self._viewport.to_share(min(max(event.y, 0) / max(self.size.height - 1, 1), 1.0))
        self.repaint()
