"""The transcript: one widget that shows the whole conversation."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.message import Message
from textual.timer import Timer

from tools.results import Display, Outcome
from widgets.chunked import chunked
from widgets.frame_limiter import FrameLimiter
from widgets.palette import Palette
from widgets.transcript.browser import Browser
from widgets.transcript.items import CallItem, CutItem, Item, NoticeItem, UserItem
from widgets.transcript.painting import BAR, SCROLLBAR
from widgets.transcript.running_calls import RunningCalls
from widgets.transcript.streamed_reply import StreamedReply

FRAME = 1 / 30
"""Seconds between two frames while something streams."""
SCROLLED_FRAME = 1 / 15
"""The same after a frame in which most rows were new, as they are when the end moves on."""
TICK = 1 / 8
"""Seconds between two faces of the spinner."""
RESTING_TICK = 1.0
"""The same while a dialog waits for the person."""
KEPT_ITEMS = 2_000
"""Items that stay in memory, those used last, and how many above those in sight are fetched ahead."""
SLACK = 200
"""How many more there may be before the first are put away."""
_ALL = 1 << 60


class Transcript(Browser):
    """The conversation, drawn row by row from a document.

    Whatever comes in is shown at once and then at most 30 times a second, 15 times
    where that moves all rows, and only rows that changed are painted. `motion` False
    shows no spinner.
    """

    DEFAULT_CSS = "Transcript { width: 1fr; height: 1fr; }"

    @dataclass
    class Scrolled(Message):
        """The end is followed or no longer, or there is more, or less, that was not seen."""

        transcript: Transcript
        following: bool
        unread: int

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        self._resting = False
        self.clock = time.monotonic
        self._reply = StreamedReply(self.document, lambda: self.clock())
        self._calls = RunningCalls(self.document, lambda: self.clock())
        self._reported = (True, 0)
        self._pace = FrameLimiter(self._show, lambda error: self.call_later(_fail, error))
        self._ticks: Timer | None = None
        self._face = 0
        self._fitting = False
        """Whether items are being fetched, or put away."""

    def use(self, palette: Palette) -> None:
        """Draw everything in another look."""
        self.palette = palette
        self.document.use(palette)
        self._reply.restyle()
        self.repaint()

    def clear(self) -> None:
        """An empty conversation."""
        self.load(())

    def load(self, items: Iterable[Item] = (), earlier: Iterable[Item] = ()) -> None:
        """Show a conversation from before, at its end.

        `earlier` are the items above `items`, newest first. What is in sight is fetched
        at once, a number above it between other things, and the rest when it is wanted, so it may
        be long and cost something.
        """
        self._reply = StreamedReply(self.document, lambda: self.clock())
        self._calls.clear()
        self._seeking = None
        self.document.load(items, earlier)
        self._focused = None
        self._unread.clear()
        self.finder.clear()
        self._viewport.to_end()
        self.repaint()
        self._fit()

    def put_above(self, earlier: Iterable[Item]) -> None:
        """Show items from before, newest first, above what has been noticed since; at the end."""
        document = self.document
        self.load([document.peek(index) for index in range(document.first, document.stop)], earlier)

    def add_user(self, text: str, node: int = 0, origin: str = "prompt") -> None:
        """The person said something."""
        self._add(UserItem(text, node, origin))

    def add_notice(self, kind: str, text: str) -> None:
        """Something happened that neither person nor model said."""
        self._add(NoticeItem(kind, text))

    def add_text(self, text: str) -> None:
        """A piece of the answer."""
        self._reply.add(text)
        self._soon()

    def add_reasoning(self, text: str) -> None:
        """A piece of the model's reasoning."""
        self._reply.add(text, reasoning=True)
        self._soon()

    def finish_answer(self, text: str, reasoning: str, node: int) -> None:
        """The model's message is complete. It takes the place of the pieces since the last one."""
        changed = self._reply.flush()
        before = self.document.stop
        self._reply.finish(text, reasoning, node)
        self._changed(changed | set(range(before, self.document.stop)))

    def cut(self, reason: str) -> None:
        """The reply broke off: what came in stays, with a mark."""
        self._changed(self._reply.flush())
        self._reply.cut()
        self._add(CutItem(reason))

    def start_call(self, call_id: str, tool: str, display: Display, arguments: Mapping[str, Any]) -> None:
        """A tool call starts."""
        self._changed(self._reply.flush() | {self._calls.start(call_id, tool, display, arguments)})

    def progress_call(self, call_id: str, text: str) -> None:
        """New output of a running call."""
        self._calls.progress(call_id, text)
        self._soon()

    def finish_call(
        self, call_id: str, outcome: Outcome, seconds: float, display: Display, result: str
    ) -> None:
        """A call ended. One that was never started gets its card now."""
        index = self._calls.finish(call_id, outcome, seconds, display, result)
        if index is None:
            self._add(CallItem(call_id, display.verb, display, {}, outcome, seconds, result))
        else:
            self._changed([index])

    def changed_files(self, call_id: str, count: int) -> None:
        """The call that ended last changed so many files, which can be taken back."""
        index = self._calls.changed_files(call_id, count)
        if index is not None:
            self._changed([index])

    def rest(self, resting: bool) -> None:
        """While the person is asked something nothing turns, and time goes by in seconds."""
        if resting == self._resting:
            return
        self._resting = resting
        if self._ticks is not None:
            self._ticks.stop()
            self._ticks = None
            self._tick()
        self._tick_while_running()

    def flush(self) -> None:
        """Show at once what came in."""
        self._pace.stop()
        self._show()

    def _show(self) -> float:
        """Show what came in; seconds until the next time."""
        changed = self._reply.flush() | self._calls.flush()
        if not self.following:
            self._unread.update(changed)
        self._tick_while_running()
        new = self.repaint()
        self._fit()
        return SCROLLED_FRAME if 2 * new > self.size.height else FRAME

    def redraw_open(self) -> None:
        """Draw the answer that is being written once more."""
        self._reply.restyle()

    def settle(self) -> None:
        """Give the items that are being written their text so far."""
        self._reply.settle()

    def painted(self) -> None:
        """Tell when the end is left or reached, or more came in below."""
        self._fit()
        state = (self.following, self.unread)
        if state != self._reported:
            self._reported = state
            self.post_message(self.Scrolled(self, *state))

    def on_mount(self) -> None:
        self.flush()

    def on_resize(self, event: events.Resize) -> None:
        self.document.resize(max(event.size.width - BAR - SCROLLBAR, 4))
        self._reply.restyle()
        self._viewport.height = event.size.height
        self.repaint()

    def _wanted(self) -> int:
        """The first item that should have been fetched."""
        document = self.document
        if self.finder.searching:
            return document.first
        if self._viewport.at_start or self.dragging:
            return -_ALL
        top = document.stop if self.following else self._viewport.top.item
        return top - KEPT_ITEMS

    def _fit(self) -> None:
        """Fetch what is wanted, and put away what nobody has looked at for long."""
        if self._fitting or not self.is_attached:
            return
        document = self.document
        fetches = document.first > self._wanted() and not document.complete
        if fetches or document.in_memory > KEPT_ITEMS + SLACK:
            self._fitting = True
            self.run_worker(self._fit_slices)

    async def _fit_slices(self) -> None:
        try:
            async for _ in chunked(self._fit_steps()):
                self._soon()
        finally:
            self._fitting = False

    def _fit_steps(self) -> Iterator[None]:
        """Fetch an item from before and put one away, as long as there is something to do."""
        document = self.document
        while True:
            fetched = document.first > self._wanted() and document.more()
            away = document.in_memory > KEPT_ITEMS and document.put_away()
            if not fetched and not away:
                return
            yield

    def _add(self, item: Item) -> None:
        self._changed(self._reply.flush() | {self.document.append(item)})

    def _changed(self, items: Iterable[int]) -> None:
        """Items came or grew: count them while nobody looks, and show them with the next frame."""
        if not self.following:
            self._unread.update(items)
        self._tick_while_running()
        self._soon()

    def _soon(self) -> None:
        """Paint with the next frame, however often this is called until then."""
        if not self._pace.waiting and self.is_attached:
            self._pace.soon()

    def _tick_while_running(self) -> None:
        working = self._calls.running or self._reply.thinking
        if working and self._ticks is None and self.is_attached:
            self._ticks = self.set_interval(RESTING_TICK if self._resting else TICK, self._tick)
        elif not working and self._ticks is not None:
            self._ticks.stop()
            self._ticks = None

    def _tick(self) -> None:
        self._face += 1
        turns = self.motion and not self._resting
        calls = self._calls.tick(self._face if turns else -1)
        if self._reply.tick() or calls:
            self.repaint()


def _fail(error: Exception) -> None:
    """Raise what went wrong between messages where the application hears of it."""
    raise error
