"""The tool log: every call of every agent; calls of scripts are listed under their script."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, get_args

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer

from themes.states import STATES, state_of
from tools.results import Display, Outcome
from tools.text.words import plural
from widgets.panes import status
from widgets.panes.pane import Pane, Summary
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, one_line, spread

KEPT = 5_000
"""The maximum number of calls kept; the oldest twentieth is dropped at a time."""
TITLE, EMPTY = "LOG", "Every tool call shows up here."
SANDBOX_TITLE, SANDBOX_EMPTY = "SANDBOX LOG", "No script has called a tool yet. s shows other calls."
ELSEWHERE_EMPTY = "Calls that the conversation does not show appear here: other agents, scripts, servers."
LogScope = Literal["elsewhere", "all", "scripts"]
"""The listed calls: those that the conversation does not show; all; scripts that called tools."""
SCOPES: tuple[LogScope, ...] = get_args(LogScope)
TEXT_LIMIT = 200
"""Characters kept of a subject, a summary or a line of output."""
VERB_CELLS = 8
SECONDS_FROM = 60
"""The width in cells from which the time of day is shown with seconds."""
LOUD = (STATES["failed"], STATES["exit"])
"""States whose colour the summary has, too."""


@dataclass(slots=True, eq=False)
class _Entry:
    """One call. `key` orders the log: number of the top-level call, then number within it."""

    key: tuple[int, int]
    call: str
    tool: str
    agent: str
    verb: str
    subject: str
    summary: str
    at: datetime
    started: float
    outcome: Outcome | None = None
    seconds: float | None = None
    children: int = 0
    exit_code: int | None = None

    @property
    def nested(self) -> bool:
        return self.key[1] > 0

    def show(self, display: Display) -> None:
        self.verb = one_line(display.verb, 40) or one_line(self.tool, 40)
        self.subject = one_line(display.subject, TEXT_LIMIT)
        self.summary = one_line(display.summary, TEXT_LIMIT)
        self.exit_code = display.exit_code


class LogPane(Pane):
    """A pane of all calls with time, subject, outcome and duration; the newest stays in view.

    The sandbox log is a second view: scripts that called tools, and these calls. The pane keeps the newest
    `kept` calls; its first row and its title state how many were dropped.
    """

    FLEXIBLE = True
    KEYS: ClassVar[str] = "⏎ open · s scope · "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "scope", "Calls of others, all calls, or those of scripts", id="log.sandbox")
    ]

    class Opened(Message):
        """Request to show a call in full."""

        def __init__(self, call_id: str) -> None:
            super().__init__()
            self.call_id = call_id

    def __init__(
        self,
        *,
        scope: LogScope = "all",
        kept: int = KEPT,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        super().__init__(
            "log",
            self._row,
            title=TITLE,
            search_text=lambda index: self._text(self._order[index]),
            empty=ELSEWHERE_EMPTY if scope == "elsewhere" else EMPTY,
            follow=True,
        )
        self.scope: LogScope = scope
        """Which calls are listed."""
        self.lost = 0
        """The number of older calls that were dropped."""
        self._kept = kept
        self._clock = clock
        self._now = now
        self._all: list[_Entry] = []
        self._order: list[_Entry] = []
        """The listed entries: all, or those of the scope."""
        self._calls: dict[str, _Entry] = {}
        self._live: set[_Entry] = set()
        self._numbers = 0
        self._ticker: Timer | None = None

    @property
    def sandbox(self) -> bool:
        """Whether only calls of scripts are listed."""
        return self.scope == "scripts"

    @property
    def vacant(self) -> bool:
        return self.scope == "elsewhere" and not self._order

    def wake(self) -> None:
        if self.vacant and self._all:
            self.show_scope("all")

    # Updates from the application

    def start(
        self,
        call_id: str,
        tool: str,
        display: Display,
        parent: str | None = None,
        agent: str = "main",
        at: datetime | None = None,
    ) -> None:
        """Add a call that starts now, or started `at` a time; `parent` is the call whose script makes it.

        A known id gets a second row.
        """
        above = self._root(parent) if parent else None
        if above is None:
            self._numbers += 1
            key = (self._numbers, 0)
        else:
            above.children += 1
            key = (above.key[0], above.children)
            if self.scope != "all" and above.children == 1 and self._index(above.key) is None:
                self._show(above)
        entry = _Entry(key, call_id, tool, agent, "", "", "", at or self._now(), self._clock())
        entry.show(display)
        self._add(entry)

    def progress(self, call_id: str, text: str) -> None:
        """Add output of a running call; its last line replaces the summary."""
        entry = self._calls.get(call_id)
        if entry is None or entry.outcome is not None:
            return
        tail = text[-4 * TEXT_LIMIT :].rstrip().rpartition("\n")[2]
        line = one_line(tail, TEXT_LIMIT)
        if line and line != entry.summary:
            entry.summary = line
            self._redraw(entry)

    def finish(self, call_id: str, outcome: Outcome, seconds: float | None, display: Display) -> None:
        """Mark a call as ended after `seconds`. Calls without a row are ignored."""
        entry = self._calls.get(call_id)
        if entry is None:
            return
        entry.outcome, entry.seconds = outcome, seconds
        entry.show(display)
        self._live.discard(entry)
        self._redraw(entry)
        if entry.children:
            self._redraw_last_child(entry)
        self._tick()
        self.reshaped()

    def clear(self) -> None:
        """Forget everything, as when another session opens."""
        for rows in (self._all, self._order, self._calls, self._live):
            rows.clear()
        self.lost = 0
        self.reset(0)
        self._tick()
        self.reshaped()

    def show_sandbox(self, on: bool) -> None:
        """Show only scripts that called tools, with these calls; or all calls again."""
        self.show_scope("scripts" if on else "all")

    def show_scope(self, scope: LogScope) -> None:
        """List the calls of `scope`."""
        if scope == self.scope:
            return
        self.scope = scope
        self.title, self.empty = (SANDBOX_TITLE, SANDBOX_EMPTY) if self.sandbox else (TITLE, EMPTY)
        self._order = [entry for entry in self._all if self._belongs(entry)]
        self.reset(len(self._order))
        self.reshaped()

    def action_scope(self) -> None:
        self.show_scope(SCOPES[(SCOPES.index(self.scope) + 1) % len(SCOPES)])

    # Keeping order

    def _belongs(self, entry: _Entry) -> bool:
        if self.scope == "elsewhere" and entry.agent != "main":
            return True
        return self.scope == "all" or entry.nested or entry.children > 0

    def _root(self, parent: str) -> _Entry | None:
        """Return the top-level call of a script; None if it is unknown."""
        entry = self._calls.get(parent)
        if entry is None or not entry.nested:
            return entry
        return _find(self._all, (entry.key[0], 0))

    def _add(self, entry: _Entry) -> None:
        self._all.insert(_place(self._all, entry.key), entry)
        earlier = self._calls.get(entry.call)
        if earlier is not None and earlier in self._live:
            # Models reuse ids; the earlier call with this id can no longer be addressed.
            self._live.discard(earlier)
            earlier.outcome = "interrupted"
        self._calls[entry.call] = entry
        self._live.add(entry)
        if self._belongs(entry):
            self._show(entry)
        self._make_room()
        self._tick()
        self.reshaped()

    def _show(self, entry: _Entry) -> None:
        index = _place(self._order, entry.key)
        self._order.insert(index, entry)
        if index == len(self._order) - 1:
            self.add_rows()
        else:
            self.insert_row(index)
        if entry.nested and index > 0:
            self.update_row(index - 1)

    def _make_room(self) -> None:
        excess = len(self._all) - self._kept
        if excess <= self._kept // 20:
            return
        for entry in self._all[:excess]:
            self._live.discard(entry)
            if self._calls.get(entry.call) is entry:
                del self._calls[entry.call]
        del self._all[:excess]
        self.lost += excess
        gone = _place(self._order, self._all[0].key)
        if gone:
            del self._order[:gone]
            self.drop_rows(gone)

    def _index(self, key: tuple[int, int]) -> int | None:
        index = _place(self._order, key)
        return index if index < len(self._order) and self._order[index].key == key else None

    def _redraw(self, entry: _Entry) -> None:
        if (index := self._index(entry.key)) is not None:
            self.update_row(index)

    def _redraw_last_child(self, root: _Entry) -> None:
        if (index := self._index((root.key[0], root.children))) is not None:
            self.update_row(index)

    # The seconds of running calls

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self._redraw_running, pause=True)
        self._tick()

    def _tick(self) -> None:
        if self._ticker is not None:
            self._ticker.resume() if self._live else self._ticker.pause()

    def _redraw_running(self) -> None:
        for entry in self._live:
            self._redraw(entry)

    # Drawing

    def figure(self) -> str:
        count = len(self._order)
        if self.lost and self.scope == "all":
            return f"newest {count:,} of {count + self.lost:,}"
        return f"{count:,}" if count else ""

    def title_end(self) -> Text:
        if self.over or self.needle or not self.has_focus or not self._all:
            return super().title_end()
        return Text(f"{self.figure()}  s {self.scope}  / filter".lstrip(), self.ink("dim"))

    def summary(self) -> Summary:
        lost = self.lost if self.scope == "all" else 0
        return Summary(self.title, f"{len(self._order) + lost:,}" if self._order else "")

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.post_message(self.Opened(self._order[event.index].call))

    def _text(self, entry: _Entry) -> str:
        agent = "" if entry.agent == "main" else f"{entry.agent} "
        state = entry.outcome or "running"
        return (
            f"{entry.at:%H:%M:%S} {agent}{entry.verb} {entry.subject} · {entry.summary or state} · {state}"
            f" · {status.duration(self._seconds(entry))}"
        )

    def _seconds(self, entry: _Entry) -> float | None:
        return entry.seconds if entry.outcome is not None else self._clock() - entry.started

    def _row(self, index: int, width: int) -> Sequence[Text]:
        entry = self._order[index]
        state = state_of(entry.outcome, entry.exit_code)
        line = Text.assemble(" ", (state.glyph, self.ink(state.role)), " ")
        if entry.nested:
            line.append("  └ " if self._closes(entry) else "  ├ ", self.ink("rule"))
        else:
            line.append(f"{entry.at:%H:%M:%S} " if width >= SECONDS_FROM else f"{entry.at:%H:%M} ")
            line.stylize(self.ink("dim"), 3)
        if entry.agent != "main":
            line.append(one_line(entry.agent, 20) + " ", self.ink("accent"))
        verb = fit(Text(entry.verb, self.ink("text" if entry.outcome is None else "dim")), VERB_CELLS)
        verb.pad_right(max(VERB_CELLS - verb.cell_len, 0))
        line.append_text(verb).append(" ").append(entry.subject, self.ink("text"))
        if entry.summary:
            line.append(" · " if entry.subject else "", self.ink("dim"))
            line.append(entry.summary, self.ink(state.role if state in LOUD else "dim"))
        row = spread(line, self._end(entry), width)
        if index or not self.lost or self.scope != "all":
            return [row]
        older = f"   {plural(self.lost, 'older call')} in the session's history"
        return [fit(Text(older, self.ink("dim")), width), row]

    def _end(self, entry: _Entry) -> Text:
        seconds = self._seconds(entry)
        if seconds is None:
            return Text()
        text = status.elapsed(seconds) if entry.outcome is None else status.duration(seconds)
        return Text(text + " ", self.ink("accent" if entry.outcome is None else "dim"))

    def _closes(self, entry: _Entry) -> bool:
        """Return whether this was the last call of a script that has ended."""
        above = _find(self._all, (entry.key[0], 0))
        return above is not None and above.outcome is not None and entry.key[1] == above.children


def _place(entries: Sequence[_Entry], key: tuple[int, int]) -> int:
    """Return the index of the entry with this key, or its insertion point."""
    return bisect_left(entries, key, key=lambda entry: entry.key)


def _find(entries: Sequence[_Entry], key: tuple[int, int]) -> _Entry | None:
    index = _place(entries, key)
    return entries[index] if index < len(entries) and entries[index].key == key else None
