"""The reply being written: streamed pieces become blocks and one open tail in the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from textual.strip import Strip

from tools.results import Display, Outcome
from tools.text.safe_text import clean, printable
from widgets.transcript.blocks import BlockSplitter, MarkdownBlock
from widgets.transcript.document import Document
from widgets.transcript.drawing import GUTTER, MARGIN, rows_of
from widgets.transcript.markdown import FenceRenderer, render_code
from widgets.transcript.parts import AnswerItem, CallItem, Fold, Item, MarkupPart, ReasoningItem, head_of


class OpenTail:
    """The rows of the last block while it is incomplete. In a code fence only new lines are drawn."""

    def __init__(self, document: Document, splitter: BlockSplitter, index: int) -> None:
        self._document = document
        self._index = index
        self._splitter = splitter
        self.reset()

    def reset(self) -> None:
        """Discard the drawn rows, because the block, width or palette has changed."""
        self._fence: FenceRenderer | None = None
        self._lines = 0
        self._strips: list[Strip] = []

    def strips(self) -> list[Strip]:
        """Return the current rows."""
        block = self._splitter.tail()
        if block is None:
            return []
        if block.kind == "fence" and block.source.lstrip().startswith(("```", "~~~")):
            return self._code(block)
        return self._document.draw(MarkupPart(block), self._document.wide(self._index).shift)

    def _code(self, block: MarkdownBlock) -> list[Strip]:
        document = self._document
        room = max(document.width - GUTTER - MARGIN, 1)
        wide = document.wide(self._index)
        if self._fence is None:
            self._fence = FenceRenderer(block.info, document.palette, room, wide)
        lines = self._splitter.open_code(self._lines)
        self._lines += len(lines)
        self._strips += rows_of(self._fence.feed_lines(lines), document.width, document.palette)
        if block.source.count("\n") != self._lines + 1:
            return list(self._strips)
        unfinished = render_code(block.source.rpartition("\n")[2], "", room, document.palette, wide)
        return [*self._strips, *rows_of(unfinished, document.width, document.palette)]


@dataclass
class _Stretch:
    """Consecutive pieces of one kind, and their item."""

    index: int
    reasoning: bool
    started: float
    pieces: list[str] = field(default_factory=list)
    seconds: float = 0.0
    splitter: BlockSplitter = field(default_factory=BlockSplitter)
    tail: OpenTail | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class StreamedReply:
    """The text streamed since the last complete message. `clock` returns seconds."""

    def __init__(self, document: Document, clock: Callable[[], float]) -> None:
        self._document = document
        self._clock = clock
        self._pending: list[tuple[bool, str]] = []
        self._stretches: list[_Stretch] = []

    @property
    def thinking(self) -> bool:
        """True if the last piece was reasoning, which is still being timed."""
        return bool(self._stretches) and self._stretches[-1].reasoning

    @property
    def index(self) -> int | None:
        """The index of the item being written; None if there is none."""
        return self._stretches[-1].index if self._stretches else None

    @property
    def first(self) -> int | None:
        """The index of the first item of the unfinished message; None if there is none."""
        return self._stretches[0].index if self._stretches else None

    def add(self, text: str, *, reasoning: bool = False) -> None:
        """Add a piece. It is shown with the next `flush`."""
        if text:
            self._pending.append((reasoning, printable(text)))

    def flush(self) -> set[int]:
        """Update the document; return the changed items."""
        changed: set[int] = set()
        pending, self._pending = self._pending, []
        start = 0
        while start < len(pending):
            reasoning = pending[start][0]
            end = start
            while end < len(pending) and pending[end][0] is reasoning:
                end += 1
            changed.add(self._write("".join(text for _, text in pending[start:end]), reasoning))
            start = end
        return changed

    def settle(self) -> None:
        """Store the text so far in the items, for searching and copying."""
        self.flush()
        for stretch in self._stretches:
            entry = self._document.entry(stretch.index)
            if isinstance(entry.item, (AnswerItem, ReasoningItem)):
                entry.item = replace(entry.item, text=stretch.text)

    def restyle(self) -> None:
        """Draw the open tail again after a change of width or palette."""
        for stretch in self._stretches:
            if stretch.tail is not None:
                stretch.tail.reset()
                self._document.write(stretch.index, [], stretch.tail.strips())

    def tick(self) -> bool:
        """Update the time of open reasoning; return whether something changed."""
        if not self.thinking:
            return False
        return self._think(self._stretches[-1], live=True)

    def finish(self, text: str, reasoning: str, node: int) -> None:
        """Complete the message: shown text is kept if it is equal, otherwise replaced."""
        self.flush()
        stretches, self._stretches = self._stretches, []
        same_text = _words(stretches, False) == clean(text).strip()
        same_reasoning = _words(stretches, True) == clean(reasoning).strip()
        if same_text and same_reasoning:
            self._close(stretches, node)
            return
        seconds = [stretch.seconds for stretch in stretches if stretch.reasoning]
        wanted: list[Item] = []
        if reasoning.strip():
            wanted.append(ReasoningItem(reasoning, sum(seconds) if seconds else None))
        if text.strip():
            wanted.append(AnswerItem(text, node))
        for stretch in stretches:
            # An item without rows is left where more was streamed than the message holds.
            self._document.change(stretch.index, wanted.pop(0) if wanted else AnswerItem(""))
        for item in wanted:
            self._document.append(item)

    def cut(self) -> None:
        """End an interrupted stream; shown text is kept."""
        self.flush()
        stretches, self._stretches = self._stretches, []
        self._close(stretches, 0)

    def _write(self, text: str, reasoning: bool) -> int:
        current = self._stretches[-1] if self._stretches else None
        if current is None or current.reasoning is not reasoning:
            if current is not None and not reasoning and not text.strip():
                # Blank lines behind reasoning are not an answer.
                return current.index
            if current is not None and current.reasoning:
                self._think(current, live=False)
            current = self._begin(reasoning)
        current.pieces.append(text)
        if current.tail is None:
            self._think(current, live=True)
        else:
            closed = current.splitter.feed(text)
            if closed:
                current.tail.reset()
            self._document.write(
                current.index, [MarkupPart(block) for block in closed], current.tail.strips()
            )
        return current.index

    def _begin(self, reasoning: bool) -> _Stretch:
        now = self._clock()
        if reasoning:
            stretch = _Stretch(self._document.append(ReasoningItem("", 0.0, live=True)), True, now)
        else:
            stretch = _Stretch(self._document.open(AnswerItem("")), False, now)
            stretch.tail = OpenTail(self._document, stretch.splitter, stretch.index)
        self._stretches.append(stretch)
        return stretch

    def _think(self, stretch: _Stretch, *, live: bool) -> bool:
        """Update the reasoning header; its text only if it is open."""
        stretch.seconds = max(self._clock() - stretch.started, 0.0)
        entry = self._document.entry(stretch.index)
        text = stretch.text if entry.chosen is Fold.OPEN or not live else ""
        item = ReasoningItem(text, float(int(stretch.seconds)), live=live)
        if item == entry.item:
            return False
        self._document.change(stretch.index, item)
        return True

    def _close(self, stretches: list[_Stretch], node: int) -> None:
        for stretch in stretches:
            if stretch.reasoning:
                item = self._document.entry(stretch.index).item
                if isinstance(item, ReasoningItem) and item.live:
                    self._think(stretch, live=False)
            else:
                rest = [MarkupPart(block) for block in stretch.splitter.finish()]
                self._document.close(stretch.index, [*rest], AnswerItem(stretch.text, node))


def _words(stretches: list[_Stretch], reasoning: bool) -> str:
    return "".join(stretch.text for stretch in stretches if stretch.reasoning is reasoning).strip()


LIVE_CHARS = 4_096
"""Characters of a running call's output that are kept."""


class RunningCalls:
    """The cards of running calls. `clock` returns seconds."""

    def __init__(self, document: Document, clock: Callable[[], float]) -> None:
        self._document = document
        self._clock = clock
        self._running: dict[str, tuple[int, float]] = {}
        self._output: dict[str, str] = {}
        self.asking: dict[str, str] = {}
        """Requests that wait for the user, by id, each with the tool that asks."""
        self._ended: tuple[str, int] | None = None
        """The call that ended last, and its item."""

    @property
    def running(self) -> bool:
        """True if any call runs."""
        return bool(self._running)

    @property
    def first(self) -> int | None:
        """The index of the first item of a running call; None if no call runs."""
        return min((index for index, _ in self._running.values()), default=None)

    def start(self, call: str, tool: str, display: Display, arguments: Mapping[str, Any]) -> int:
        """Show the card of a call; return the index of its item."""
        index = self._document.append(CallItem(call, tool, display, arguments))
        self._running[call] = (index, self._clock())
        return index

    def progress(self, call: str, text: str) -> None:
        """Add output of a call. It is shown with the next `flush`."""
        if call in self._running:
            self._output[call] = (self._output.get(call, "") + text)[-LIVE_CHARS:]

    def flush(self) -> set[int]:
        """Update the output of running calls; return the changed items."""
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
        """Finish a call; return its item's index, None if it was never started."""
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
        """Show the number of files the last finished call changed; return its item, None for another call."""
        if self._ended is None or self._ended[0] != call:
            return None
        index = self._ended[1]
        self._document.change(index, replace(self._item(index), files=count))
        return index

    def tick(self, face: int) -> bool:
        """Update the running calls' times and the newest's spinner (-1: none); return whether any changed."""
        now = self._clock()
        changed = False
        asking = self._asking_calls()
        for number, (index, started) in enumerate(reversed(self._running.values())):
            entry = self._document.entry(index)
            item = replace(self._item(index), seconds=float(int(now - started)))
            entry.item = item
            head = head_of(item, entry.fold, face if number == 0 else -1)
            if index in asking:
                head = replace(head, state="waiting", spinner=-1)
            at = self._document.start_of(index).part
            if self._document.parts(index)[at] != head:
                self._document.replace(index, at, head)
                changed = True
        return changed

    def _asking_calls(self) -> set[int]:
        """Return the items of calls that wait for the user: the tool's newest, else the newest of all."""
        if not self.asking or not self._running:
            return set()
        newest = {self._item(index).tool: index for index, _ in self._running.values()}
        return {newest.get(tool, next(reversed(self._running.values()))[0]) for tool in self.asking.values()}

    def clear(self) -> None:
        """Forget all calls."""
        self.asking.clear()
        self._running.clear()
        self._output.clear()
        self._ended = None

    def _item(self, index: int) -> CallItem:
        item = self._document.entry(index).item
        assert isinstance(item, CallItem)
        return item
