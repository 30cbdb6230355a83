"""The tool calls of a conversation while they run: their output, their time, their one spinner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tools.results import Display, Outcome
from widgets.transcript.cards import head_of
from widgets.transcript.document import Document
from widgets.transcript.items import CallItem

LIVE_CHARS = 4_096
"""Characters of a running call's output that are kept."""


class RunningCalls:
    """Cards of running calls. `clock` gives seconds."""

    def __init__(self, document: Document, clock: Callable[[], float]) -> None:
        self._document = document
        self._clock = clock
        self._running: dict[str, tuple[int, float]] = {}
        self._output: dict[str, str] = {}
        self._ended: tuple[str, int] | None = None
        """The call that ended last, and its item."""

    @property
    def running(self) -> bool:
        """Whether any call runs."""
        return bool(self._running)

    @property
    def first(self) -> int | None:
        """The first item that belongs to a running call."""
        return min((index for index, _ in self._running.values()), default=None)

    def start(self, call: str, tool: str, display: Display, arguments: Mapping[str, Any]) -> int:
        """Show the card of a call; the index of its item."""
        index = self._document.append(CallItem(call, tool, display, arguments))
        self._running[call] = (index, self._clock())
        return index

    def progress(self, call: str, text: str) -> None:
        """Take in output of a call. It shows with the next `flush`."""
        if call in self._running:
            self._output[call] = (self._output.get(call, "") + text)[-LIVE_CHARS:]

    def flush(self) -> set[int]:
        """Bring the output of running calls up to date. Returns the items that changed."""
        changed: set[int] = set()
        output, self._output = self._output, {}
        for call, text in output.items():
            index, _ = self._running[call]
            item = self._item(index)
            live = (item.live + text)[-LIVE_CHARS:]
            self._document.change(index, replace(item, live=live))
            changed.add(index)
        return changed

    def finish(
        self, call: str, outcome: Outcome, seconds: float, display: Display, result: str
    ) -> int | None:
        """A call ended; the index of its item, None if it was never started."""
        self._output.pop(call, None)
        started = self._running.pop(call, None)
        if started is None:
            return None
        index, _ = started
        self._ended = (call, index)
        item = self._item(index)
        self._document.change(
            index, replace(item, outcome=outcome, seconds=seconds, display=display, result=result, live="")
        )
        return index

    def changed_files(self, call: str, count: int) -> int | None:
        """The call that ended last changed so many files; the index of its item, None if it is another."""
        if self._ended is None or self._ended[0] != call:
            return None
        index = self._ended[1]
        self._document.change(index, replace(self._item(index), files=count))
        return index

    def tick(self, face: int) -> bool:
        """Let time go on: the seconds of all running calls, and the spinner, `face`, of the one started last.

        `face` is -1 for no motion. Whether something changed.
        """
        now = self._clock()
        changed = False
        for number, (index, started) in enumerate(reversed(self._running.values())):
            entry = self._document.entry(index)
            item = replace(self._item(index), seconds=float(int(now - started)))
            entry.item = item
            head = head_of(item, entry.fold, face if number == 0 else -1)
            at = self._document.start_of(index).part
            if self._document.parts(index)[at] != head:
                self._document.replace(index, at, head)
                changed = True
        return changed

    def clear(self) -> None:
        """Forget all calls."""
        self._running.clear()
        self._output.clear()
        self._ended = None

    def _item(self, index: int) -> CallItem:
        item = self._document.entry(index).item
        assert isinstance(item, CallItem)
        return item
