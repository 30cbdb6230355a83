"""The transcript: the widget that shows the conversation."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from themes.skin import Skin
from tools.command_name import as_typed
from tools.results import Display, Outcome
from widgets.painting.direct_rows import DirectRows
from widgets.painting.filtered_rows import FilteredRows, KeptRow
from widgets.palette import Palette
from widgets.pictures.shelf import PictureCache
from widgets.transcript.document import Document
from widgets.transcript.drawing import BAR, SCROLLBAR
from widgets.transcript.navigator import DocumentMouse, Navigator
from widgets.transcript.parts import CallItem, Item, NoticeItem, Part, UserItem
from widgets.transcript.picture import DocumentPicture, EarlierItems, Finder, Viewport, selected_text, whole
from widgets.transcript.streamed_reply import RunningCalls, StreamedReply


class FrameLimiter:
    """A limiter that calls `paint` soon after a request, once for any number of requests.

    The first paint after a pause runs in the same turn of the event loop. The next one starts `rest` seconds
    after it; `paint` returns that number. Errors of `paint` go to `fail`. This is cheaper than a Textual
    timer, which needs a task and several messages for each paint.
    """

    def __init__(self, paint: Callable[[], float], fail: Callable[[Exception], object]) -> None:
        self._paint = paint
        self._fail = fail
        self._due = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """True if `paint` was requested and has not run yet."""
        return self._waiting is not None

    def soon(self) -> None:
        """Request a paint at the earliest allowed time."""
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_at(max(self._due, loop.time()), self._run)

    def stop(self) -> None:
        """Cancel the pending request."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _run(self) -> None:
        self._waiting = None
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            rest = self._paint()
        except Exception as error:
            self._fail(error)
        else:
            ended = clock()
            # Painting is part of the rest, or pictures would be rarer the more there is on them; but at least
            # as much time as it takes is left to other work.
            self._due = max(began + rest, ended + (ended - began))


FRAME = 1 / 20
"""Seconds between two frames while an answer or output streams."""
SCROLLED_FRAME = 1 / 15
"""The same after a frame in which most rows were new, as they are when the end moves on."""
TICK = 1 / 8
"""Seconds between two faces of the spinner."""
_MATCH = "nN match"
RESTING_TICK = 1.0
"""The same while a dialog waits for the user; after a minute, only each thirtieth is drawn."""


class Transcript(KeptRow, can_focus=True):
    """The conversation, drawn row by row from a document, with its own scroll position.

    New content is shown at once, then at most 30 times a second (15 if all rows move), and only changed rows
    are painted. With `motion` False no spinner is shown. Textual's `virtual_size` is never changed, as that
    repaints the whole screen. A click opens or folds an item without moving the focus, because the user
    probably continues typing.
    """

    ALLOW_SELECT = True
    FOCUS_ON_CLICK = False
    DEFAULT_CSS = "Transcript { width: 1fr; height: 1fr; }"
    KEYS: str = (
        "⏎ open · space fold · jkgG move · o in full · yv copy · w wrap · t timeline · [] yours · ? keys"
        " · hl code · nN match · <> width · esc back"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Previous item", show=False, id="transcript.up"),
        Binding("down,j", "move(1)", "Next item", show=False, id="transcript.down"),
        Binding("enter", "open", "Open", id="transcript.open"),
        Binding("space", "fold", "Fold", id="transcript.fold"),
        Binding("o", "full_screen", "Full screen", id="transcript.full_screen"),
        Binding("t", "place", "In the timeline", show=False, id="transcript.place"),
        Binding("y", "copy", "Copy", id="transcript.copy"),
        Binding("v", "select", "Select lines for copying; again: from here on", id="transcript.select"),
        Binding(
            "left_curly_bracket", "block(-1)", "Previous block, while you select", id="transcript.block_up"
        ),
        Binding(
            "right_curly_bracket", "block(1)", "Next block, while you select", id="transcript.block_down"
        ),
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
        """A request to copy this text to the clipboard."""

        text: str
        more: str = ""
        """A sentence about what is copied next."""

    @dataclass
    class Opened(Message, namespace="transcript"):
        """A request to show this item in full screen."""

        item: Item

    @dataclass
    class Placed(Message, namespace="transcript"):
        """A request to show `node` in the timeline; 0 means its end."""

        node: int

    @dataclass
    class Scrolled(Message):
        """Following or a search started or ended, or the number of unseen items changed."""

        transcript: Transcript
        following: bool
        unread: int
        searching: bool

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        palette = Palette(Skin())
        self.pictures = PictureCache(self._redraw_part, lambda work: self.go_on(work))
        self.document = Document(palette, self.pictures.draw)
        self.finder = Finder()
        self._viewport = Viewport(self.document)
        self._picture = DocumentPicture(self.document, self._viewport, self.finder, palette)
        self.navigator = Navigator(self.document, self._viewport, self.finder, self._picture, self)
        self._mouse = DocumentMouse(self.document, self._picture, self.navigator, self)
        self._earlier = EarlierItems(
            self.document,
            self._viewport,
            self.finder,
            dragging=lambda: self._mouse.dragging,
            go_on=self.go_on,
            paint_soon=self._soon,
        )
        self._filtered = FilteredRows(self)
        self.direct = DirectRows(self)
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        self._begun = 0
        """The index of the first item of the conversation that `begin_conversation` began."""
        self._resting = False
        self._rested = 0.0
        """The time on `clock` at which it began to rest."""
        self.clock = time.monotonic
        self._reply = StreamedReply(self.document, lambda: self.clock())
        self._calls = RunningCalls(self.document, lambda: self.clock())
        self._reported = (True, 0, False)
        self._pace = FrameLimiter(self._show, lambda error: self.call_later(_fail, error))
        self._ticks: Timer | None = None
        self._face = 0

    @property
    def palette(self) -> Palette:
        """The palette of the conversation."""
        return self._picture.palette

    @property
    def following(self) -> bool:
        """True if the end is visible, so that new rows appear."""
        return self._viewport.following

    @property
    def unread(self) -> int:
        """The number of items added or changed below while the user reads above."""
        return len(self._picture.unread)

    def use(self, palette: Palette) -> None:
        """Draw everything in another palette."""
        self._picture.palette = palette
        self.document.use(palette)
        self._reply.restyle()
        self.repaint()

    def link_files(self, root: Callable[[], str]) -> None:
        """Let the terminal open links; files are in the folder whose `file:` address `root` returns."""
        self._filtered.root = root

    def clear(self) -> None:
        """Show an empty conversation."""
        self.load(())

    def load(self, items: Iterable[Item] = (), earlier: Iterable[Item] = ()) -> None:
        """Show a stored conversation at its end.

        `earlier` are the items above `items`, newest first. Visible ones are fetched at once, some above them
        in the background, and the rest on demand, so the iterable may be long and slow.
        """
        self._reply = StreamedReply(self.document, lambda: self.clock())
        self._calls.clear()
        self.document.load(items, earlier)
        self._picture.unread.clear()
        self.navigator.forget()
        self.repaint()
        self._fit()

    def begin_conversation(self) -> None:
        """Begin a conversation. What is shown stays until `prepend_stored`, to avoid a flicker."""
        self._reply = StreamedReply(self.document, lambda: self.clock())
        self._calls.clear()
        self._begun = self.document.stop

    def prepend_stored(self, earlier: Iterable[Item]) -> None:
        """Show stored items, newest first, above those of the new conversation, and go to the end."""
        document = self.document
        since, self._begun = max(document.first, self._begun), 0
        self.load([document.peek(index) for index in range(since, document.stop)], earlier)

    def add_user(
        self, text: str, node: int = 0, origin: str = "prompt", pictures: Sequence[str] = ()
    ) -> None:
        """Add a message of the user, with its images."""
        self._add(UserItem(text, node, origin, pictures))

    def add_notice(self, kind: str, text: str, detail: str = "", instead_of: str = "") -> None:
        """Add a notice of the application; `detail` can be unfolded.

        It replaces a notice at the end that contains the text `instead_of`.
        """
        item, last = NoticeItem(kind, as_typed(text), detail), self.document.stop - 1
        before = self.document.peek(last) if instead_of and self.document.knows(last) else None
        if isinstance(before, NoticeItem) and instead_of in before.text:
            self.document.change(last, item)
            self._note_changes([last])
        else:
            self._add(item)

    def add_text(self, text: str) -> None:
        """Add a piece of the answer."""
        self._reply.add(text)
        self._soon()

    def add_reasoning(self, text: str) -> None:
        """Add a piece of the model's reasoning."""
        self._reply.add(text, reasoning=True)
        self._soon()

    def finish_answer(self, text: str, reasoning: str, node: int) -> None:
        """Complete the model's message; it replaces the pieces since the last one."""
        changed = self._reply.flush()
        before = self.document.stop
        self._reply.finish(text, reasoning, node)
        self._note_changes(changed | set(range(before, self.document.stop)))

    def mark_interrupted(self) -> None:
        """Mark the reply as interrupted; its text is kept. The next notice gives the reason."""
        self._note_changes(self._reply.flush())
        self._reply.cut()
        self._add(NoticeItem("cut", "The reply broke off."))

    def start_call(self, call_id: str, tool: str, display: Display, arguments: Mapping[str, Any]) -> None:
        """Add a card for a tool call."""
        self._note_changes(self._reply.flush() | {self._calls.start(call_id, tool, display, arguments)})

    def progress_call(self, call_id: str, text: str) -> None:
        """Add output of a running call."""
        self._calls.progress(call_id, text)
        self._soon()

    def finish_call(
        self, call_id: str, outcome: Outcome, seconds: float, display: Display, result: str
    ) -> None:
        """Finish a call. A call that was never started gets a card."""
        index = self._calls.finish(call_id, outcome, seconds, display, result)
        if index is None:
            self._add(CallItem(call_id, display.verb, display, {}, outcome, seconds, result))
        else:
            self._note_changes([index])

    def changed_files(self, call_id: str, count: int) -> None:
        """Show the number of files the last finished call changed, which can be undone."""
        index = self._calls.changed_files(call_id, count)
        if index is not None:
            self._note_changes([index])

    def show_asking(self, request: str, tool: str | None) -> None:
        """Show that a running call of `tool` waits for the user; None: no longer."""
        if tool is None:
            self._calls.asking.pop(request, None)
        else:
            self._calls.asking[request] = tool
        self._tick()

    def pause_animation(self, resting: bool) -> None:
        """Stop the spinner and update times once a second while the user is asked something."""
        if resting == self._resting:
            return
        self._resting = resting
        self._rested = self.clock()
        if self._ticks is not None:
            self._ticks.stop()
            self._ticks = None
            self._tick()
        self._tick_while_running()

    def flush(self) -> None:
        """Show pending content at once."""
        self._pace.stop()
        self._show()

    def _show(self) -> float:
        """Show pending content; return the seconds until the next time."""
        changed = self._reply.flush() | self._calls.flush()
        if not self.following:
            self._picture.unread.update(changed)
        self._tick_while_running()
        new = self.repaint()
        self._fit()
        return SCROLLED_FRAME if 2 * new > self.size.height else FRAME

    # Methods for its parts

    def settle(self) -> None:
        """Store the text so far in unfinished items."""
        self._reply.settle()

    def show_hints(self, lessons: Sequence[str]) -> None:
        """Show these hints below the welcome."""
        self._picture.lessons = lessons
        self.repaint()

    def welcome(self, shown: bool) -> None:
        """Show the welcome of an empty conversation, or hide it, for example while a dialog covers half."""
        self._picture.welcomes = shown
        self.repaint()

    def redraw(self) -> None:
        """Draw everything again, because the terminal may no longer show what was drawn."""
        self.document.use(self.palette)
        self.direct.forget()
        self.repaint()

    def redraw_code(self) -> None:
        """Redraw code with other options, including the unfinished answer's."""
        if self.text_selection is not None:
            # It counts characters as they were shown.
            self.screen.clear_selection()
        self._reply.restyle()
        self.repaint()

    def _redraw_part(self, part: Part) -> None:
        """Redraw a part whose picture changed or was released."""
        self.document.forget(part)
        self._soon()

    def go_on(self, work: Callable[[], Coroutine[Any, Any, object]], *, group: str = "") -> None:
        """Run work in the background; within a group only the last one runs."""
        if group:
            self.run_worker(work, group=group, exclusive=True)
        else:
            self.run_worker(work)

    # Drawing

    def repaint(self) -> int:
        """Compose the visible rows and paint those that changed; return their number."""
        width, height = self.size
        if not self.is_attached or not height or width < 8:
            return 0
        focused = self.navigator.focused if self.has_focus else None
        changed = self._picture.compose(width, height, focused, self.text_selection)
        self.pictures.load_visible(self._picture.pictures() if self.pictures.used else ())
        self.direct.may_scroll = not self.pictures.used
        if changed:
            self._bring_to_screen(changed)
        self._fit()
        state = (self.following, self.unread, bool(self.finder.pattern))
        if state != self._reported:
            self._reported = state
            # A letter is a command only where a hint says so, and few fit: those of a search come first.
            keys = type(self).KEYS
            searched = self.navigator.last_pattern
            self.KEYS = f"{_MATCH} · {keys.replace(f' · {_MATCH}', '')}" if searched else keys
            self.post_message(self.Scrolled(self, *state))
        return len(changed)

    def _bring_to_screen(self, changed: list[int]) -> None:
        """Paint rows by number, in order: directly if possible, else with Textual's next frame."""
        self.forget_rows()
        width = self.size.width
        shown = self._filtered.filter(self._picture.lines, 0, width)
        if self.direct.write_rows((row, shown[row]) for row in changed):
            return
        runs: list[list[int]] = []
        for row in changed:
            if runs and runs[-1][1] == row:
                runs[-1][1] = row + 1
            else:
                runs.append([row, row + 1])
        self.refresh(*(Region(0, start, width, end - start) for start, end in runs))

    def render_lines(self, crop: Region) -> list[Strip]:
        rows = super().render_lines(crop)
        self.direct.note_painted(crop, rows)
        return rows

    def shown_rows(self, crop: Region) -> list[Strip]:
        rows = [self._picture.line(y, self.size.width) for y in range(crop.y, crop.bottom)]
        return self._filtered.filter(rows, crop.x, crop.right)

    def render_line(self, y: int) -> Strip:
        return self._picture.selectable_line(y, self.size.width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as displayed, or the source of the range selected with keys; or None."""
        if self.navigator.range is not None:
            return self.navigator.range.text() or "\n", "\n"
        text = selected_text(self.document, selection)
        return (text, "\n") if text else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint the rows whose selection changed."""
        if selection is None:
            self.navigator.range = None
        self.repaint()

    def select(self, selection: Selection | None) -> None:
        """Select this range; None clears the selection."""
        self.screen.selections = {} if selection is None else {self: selection}

    def text_select_all(self) -> None:
        """Select the focused item: a double click means one item, not the whole conversation."""
        if self.navigator.focused is not None:
            self.screen.selections = {self: whole(self.document, self.navigator.focused)}

    @property
    def allow_select(self) -> bool:
        """False while the scrollbar is dragged."""
        return not self._mouse.on_scrollbar

    def watch_has_focus(self, has_focus: bool) -> None:
        # Focus events arrive before the focus is set.
        super().watch_has_focus(has_focus)
        self.repaint()

    def on_mount(self) -> None:
        self.app.app_resume_signal.subscribe(self, lambda _app: self.pictures.reload_all())
        self.flush()

    def on_resize(self, event: events.Resize) -> None:
        self.document.resize(max(event.size.width - BAR - SCROLLBAR, 4))
        self._reply.restyle()
        self._viewport.height = event.size.height
        self.navigator.mark_range()
        self.repaint()

    # The mouse and the keys

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._mouse.wheel(event, -1, sideways=event.shift)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._mouse.wheel(event, 1, sideways=event.shift)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._mouse.wheel(event, -1, sideways=True)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._mouse.wheel(event, 1, sideways=True)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._mouse.down(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._mouse.move(event)

    def on_mouse_up(self) -> None:
        self._mouse.up()

    def on_click(self, event: events.Click) -> None:
        if (code := self._mouse.code_at(event)) is not None:
            self.post_message(self.Copied(code))
        elif self._mouse.click(event):
            self.repaint()

    def action_move(self, step: int) -> None:
        """Move the focus between items."""
        self.navigator.move(step)

    def action_open(self) -> None:
        """Open the focused item, fully if it opened automatically; fold it if it is open."""
        self.navigator.toggle_focused(further=True)

    def action_fold(self) -> None:
        """Fold the focused item, or open it if it is folded."""
        self.navigator.toggle_focused()

    def action_shift(self, step: int) -> None:
        """Scroll code sideways."""
        self.navigator.shift(step)

    def action_wrap(self) -> None:
        """Switch between wrapping and cutting long lines of code."""
        self.navigator.wrap_code(not self.document.wrap)

    def action_full_screen(self) -> None:
        """Request the focused item in full screen."""
        if (item := self.navigator.focused_item()) is not None:
            self.post_message(self.Opened(item))

    def action_place(self) -> None:
        """Request to show the focused message, or the nearest one before it, in the timeline."""
        self.post_message(self.Placed(self.navigator.node()))

    def action_copy(self) -> None:
        """Request copying the focused item, else the last one; again at once, its blocks of code in turn."""
        if (found := self.navigator.next_copy()) is not None:
            self.post_message(self.Copied(*found))

    def action_select(self) -> None:
        """Begin a selection by keys; again, hold or release its start."""
        self.navigator.begin_range()

    def action_block(self, step: int) -> None:
        """Go to another block while keys select."""
        self.navigator.step_range("block", step)

    def action_find(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match of the current search, or else of the last one."""
        if self.finder.pattern:
            self.navigator.find_step(step)
        else:
            self.go_on(partial(self.navigator.find_again, step))

    def action_user(self, step: int) -> None:
        """Go to the user's previous (-1) or next (1) message."""
        self.navigator.jump_user(step)

    def action_top(self) -> None:
        """Go to the start."""
        self.navigator.jump_to_start()

    def action_end(self) -> None:
        """Go to the end and follow it."""
        self.navigator.jump_to_end()

    def action_page(self, step: int) -> None:
        """Scroll by a screen less two rows of overlap."""
        self.navigator.scroll(step * max(self.size.height - 2, 1))

    # Pending content

    def _fit(self) -> None:
        """Keep viewed items in memory, even while the widget has no size."""
        if self.is_attached:
            self._earlier.fit()

    def _add(self, item: Item) -> None:
        self._note_changes(self._reply.flush() | {self.document.append(item)})

    def _note_changes(self, items: Iterable[int]) -> None:
        """Count changed items while the end is not visible, and show them with the next frame."""
        if not self.following:
            self._picture.unread.update(items)
        self._tick_while_running()
        self._soon()

    def _soon(self) -> None:
        """Request a paint with the next frame, once for any number of calls."""
        if not self._pace.waiting and self.is_attached:
            self._pace.soon()

    def _tick_while_running(self) -> None:
        working = self._calls.running or self._reply.thinking
        if working and self._ticks is None and self.is_attached:
            self._ticks = self.set_interval(RESTING_TICK if self._resting else TICK, self._tick_if_seen)
        elif not working and self._ticks is not None:
            self._ticks.stop()
            self._ticks = None

    def _tick_if_seen(self) -> None:
        # Behind a dialog each picture redraws everything, and after a minute nobody is there to see it.
        waited = int(self.clock() - self._rested)
        if not self._resting or waited < 60 or waited % 30 == 0:
            self._tick()

    def _tick(self) -> None:
        self._face += 1
        turns = self.motion and not self._resting
        calls = self._calls.tick(self._face if turns else -1)
        if self._reply.tick() or calls:
            self.repaint()


def _fail(error: Exception) -> None:
    """Raise an error from outside a message handler where the application receives it."""
    raise error
