"""The agents pane: rows, header, and activity bars."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from themes.states import draws_ascii_only, glyph, state_of
from tools.text.words import plural
from widgets.painting.filtered_rows import DrawnRow
from widgets.panes import status
from widgets.panes.pane import Pane, Summary
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, one_line, spread, to_strip

BARS = 8
"""The number of samples shown."""
WINDOW = 4.0
"""Seconds of one sample."""
KEPT = 16
"""The maximum number of counts kept; the oldest ones are dropped."""
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*%#"


@dataclass(frozen=True, slots=True)
class Pulse:
    """Token counts over time, oldest first: pairs of clock seconds and running total."""

    counts: tuple[tuple[float, int], ...] = ()

    def with_count(self, now: float, total: int) -> Pulse:
        """Return the pulse with one more count. A total that did not grow changes nothing."""
        if self.counts and total <= self.counts[-1][1]:
            return self
        return Pulse((*self.counts, (now, total))[-KEPT:])

    def rates(self, now: float) -> tuple[float, ...]:
        """Return units per second in each of the last windows, oldest first; empty without counts.

        The difference between two counts is spread evenly over the time between them.
        """
        if len(self.counts) < 2:
            return ()
        ends = [now - WINDOW * back for back in range(BARS - 1, -1, -1)]
        began = self.counts[0][0]
        return tuple(self._within(end - WINDOW, end) / WINDOW for end in ends if end > began)

    def _within(self, start: float, end: float) -> float:
        """Return the units counted between two times."""
        came = 0.0
        for (since, before), (until, after) in zip(self.counts, self.counts[1:], strict=False):
            shared = min(end, until) - max(start, since)
            if until <= since:
                came += (after - before) if start < until <= end else 0
            elif shared > 0:
                came += (after - before) * shared / (until - since)
        return came


def bars(rates: Sequence[float], *, ascii_only: bool = False) -> str:
    """Return `rates` as `BARS` cells, scaled to the highest, newest at the right. Pure."""
    steps = ASCII if ascii_only else BLOCKS
    top = max(rates, default=0.0)
    drawn = "".join(steps[0 if top <= 0 else round(rate / top * (len(steps) - 1))] for rate in rates)
    return drawn.rjust(BARS)


def pace(rates: Sequence[float]) -> float:
    """Return units per second over all of `rates`. Pure."""
    return sum(rates) / len(rates) if rates else 0.0


AgentState = Literal[
    "pending", "running", "waiting", "paused", "stopping", "done", "failed", "denied", "interrupted", "budget"
]
"""`waiting`: it asks the user something; `stopping`: it was asked to stop and has not ended yet."""

WORDS: Mapping[AgentState, str] = {
    "pending": "waits for room",
    "running": "works",
    "waiting": "asks you",
    "paused": "paused",
    "stopping": "stopping…",
    "done": "done",
    "failed": "failed",
    "denied": "denied",
    "interrupted": "stopped",
    "budget": "budget reached",
}
"""The words in which each state is shown."""
LIVE: frozenset[AgentState] = frozenset({"running", "waiting", "paused", "stopping"})
UNDER_WAY: frozenset[AgentState] = frozenset({*LIVE, "pending"})
"""The states of agents that have not ended."""
NAME_CELLS = 8
DEEPEST = 4
"""The level after which rows are not indented any further."""
TIGHT = 0.9
"""The used share of the budget from which the figures change colour."""
ROOMY = 60
"""The width in cells from which the row of a finished agent shows its usage."""

Ink = Callable[..., Style]
"""A function that returns the style of text in a role, such as `RowList.ink`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """The current state of one agent. None means unknown."""

    agent: str
    """Its id, as in events."""
    name: str
    state: AgentState
    goal: str = ""
    action: str = ""
    """What it does now or, after its end, its result."""
    seconds: float | None = None
    """The seconds it has worked."""
    since: float | None = None
    """While it works: when it began, on the clock of the pane (seconds, monotonic), instead of `seconds`."""
    depth: int = 0
    """The number of agents between it and the main one."""
    calls: int = 0
    tokens: int | None = None
    budget: float | None = None
    """The share of its budget that is used, 0 to 1."""
    cost: float | None = None
    """US dollars."""
    unmerged: int = 0
    """The number of paths changed in its copy that were neither merged nor discarded."""
    pulse: Pulse = field(default_factory=Pulse)
    """Its token counts over time, on the clock of the pane."""

    def work_seconds(self, now: float) -> float | None:
        """Return the seconds the agent has worked; None if unknown."""
        return self.seconds if self.since is None else now - self.since


@dataclass(frozen=True, slots=True)
class AgentRowStyle:
    """The options for drawing rows. `now` is the time of the pane's clock."""

    ink: Ink
    now: float
    motion: bool = True
    """Whether anything may move; otherwise speed is shown in words."""
    ascii_only: bool = False


def height(row: AgentRow) -> int:
    """Return the number of lines of a row."""
    return 1 if row.state not in LIVE else 3 if row.goal else 2


def row_lines(row: AgentRow, width: int, look: AgentRowStyle) -> Sequence[Text]:
    """Return the lines of a row: goal, current action, usage; one line for an inactive agent."""
    glyph, role, *_ = state_of(row.state)
    live = row.state in LIVE
    ink = look.ink
    depth = min(row.depth, DEEPEST)
    indent = "  " * (depth - 1) + "└ " if depth else ""
    room = max(width // 3 - len(indent), NAME_CELLS)
    name = fit(Text(one_line(row.name), ink("text" if row.state in UNDER_WAY else "dim", bold=live)), room)
    name.pad_right(max(NAME_CELLS - name.cell_len, 0))
    first = Text.assemble(" ", (glyph, ink(role)), " ", (indent, ink("rule")), name, " ")
    if not live:
        first.append(_idle_words(row), ink("dim"))
        end = _usage_text(row, width, ink)
        if mark := unmerged_mark(row):
            end = Text.assemble((mark, ink("warning")), "  " if end.plain.strip() else "", end)
        return [spread(first, end, width)]
    hint = Text("⏎ ", ink("warning")) if row.state == "waiting" else Text(" ")
    goal = one_line(row.goal)
    first.append(goal or current_action(row), ink("text"))
    lines = [spread(first, hint, width)]
    margin = "   " + " " * len(indent)
    speed = Text(f"{speed_of(row, look)} ", ink("accent"))
    if goal:
        told = Text(margin + current_action(row), ink("warning" if row.state != "running" else "dim"))
        lines.append(spread(told, speed if speed.plain.strip() else Text(" "), width))
    tight = row.budget is not None and row.budget >= TIGHT
    lines.append(
        fit(
            Text(margin + usage_line(row, width - len(margin), look.now), ink("warning" if tight else "dim")),
            width,
        )
    )
    return lines


def current_action(row: AgentRow) -> str:
    """Return the agent's current action in a few words."""
    return WORDS[row.state] if row.state != "running" else one_line(row.action) or WORDS["running"]


def speed_of(row: AgentRow, look: AgentRowStyle) -> str:
    """Return the token rate as bars, or as words without motion; empty while unknown."""
    rates = row.pulse.rates(look.now)
    if not any(rates):
        return ""
    if not look.motion:
        return f"{status.tokens(round(pace(rates)))} tok/s"
    return bars(rates, ascii_only=look.ascii_only)


def usage_line(row: AgentRow, width: int, now: float) -> str:
    """Return time, calls, tokens, budget and cost. If it is too long, the gauge and the calls are dropped."""
    calls = plural(row.calls, "call")
    gauge = "" if row.budget is None else status.gauge(row.budget, 4)
    cost = status.money(row.cost)
    line = ""
    for figure, bar in ((calls, gauge), (calls, ""), ("", "")):
        taken = [status.tokens(row.tokens), cost]
        if bar:
            taken = [f"{taken[0]} {bar} {cost}"]
        line = " · ".join(filter(None, (status.elapsed(row.work_seconds(now)), figure, *taken)))
        if len(line) < width:
            break
    return line


def unmerged_mark(row: AgentRow) -> str:
    """Return the number of unmerged paths of a finished agent, such as `±3`; empty if there are none."""
    return f"±{row.unmerged:,}" if row.unmerged and row.state not in LIVE else ""


def _idle_words(row: AgentRow) -> str:
    """Return the words in the row of an inactive agent."""
    if row.state == "pending":
        return one_line(row.goal) or WORDS["pending"]
    return " · ".join(filter(None, (WORDS[row.state], one_line(row.action))))


def _usage_text(row: AgentRow, width: int, ink: Ink) -> Text:
    """Return the usage of a finished agent; a blank if it is unknown or there is too little room."""
    if width < ROOMY or row.state == "pending" or row.seconds is None:
        return Text(" ")
    took = status.elapsed(row.seconds) if row.seconds >= 1 else status.duration(row.seconds)
    return Text(f"{took} · {status.tokens(row.tokens)} · {status.money(row.cost)} ", ink("dim"))


__all__ = ["AgentRow", "AgentState", "AgentsPane"]

Order = Literal["kill", "pause", "merge", "merge_all", "clear"]

FRAME = 1 / 30
"""The minimum number of seconds between two paints."""
LINES_OF_ENDED = 6
"""Lines for all finished agents together; the others, older ones, are reached by scrolling."""


class AgentsPane(Pane):
    """The list of subagents with their work and usage. Hidden while there are none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "ask('kill')", "Stop the agent for good", id="agents.kill"),
        Binding("p", "ask('pause')", "Pause the agent, or let it continue", id="agents.pause"),
        Binding("a,m", "ask('merge')", "Merge what the agent changed in its copy", id="agents.merge"),
        Binding("A,M", "ask('merge_all')", "Merge all copies, one after the other", id="agents.merge_all"),
        Binding("C", "ask('clear')", "Clear away agents that are over", id="agents.clear"),
    ]
    KEYS: ClassVar[str] = "⏎ open · x stop · aA merge · p pause · C clear · "

    class Opened(Message):
        """Request to open an agent's conversation."""

        def __init__(self, agent: str) -> None:
            super().__init__()
            self.agent = agent

    class Asked(Message):
        """Request for an action on an agent; `clear` and `merge_all` concern all agents."""

        def __init__(self, what: Order, agent: str) -> None:
            super().__init__()
            self.what: Order = what
            self.agent = agent

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, ascii_only: bool | None = None
    ) -> None:
        """With `ascii_only` None, the terminal decides."""
        super().__init__(
            "agents",
            self._row,
            title="AGENTS",
            search_text=self._text,
            empty="No agents. Hermes sends some when a task has independent parts.",
        )
        self.agents: tuple[AgentRow, ...] = ()
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        """Whether speed is shown as moving bars; otherwise it is shown in words."""
        self._ascii_only = draws_ascii_only(os.environ) if ascii_only is None else ascii_only
        self._clock = clock
        self._ticker: Timer | None = None
        self._frame: Timer | None = None
        self._rows: Callable[[], Sequence[AgentRow]] = tuple

    @property
    def vacant(self) -> bool:
        return not self.agents

    @property
    def selected_agent(self) -> AgentRow | None:
        """The agent under the cursor; None if there is none."""
        row = self.cursor
        return self.agents[row] if row is not None and row < len(self.agents) else None

    def soon(self, rows: Callable[[], Sequence[AgentRow]]) -> None:
        """Call `rows` and show the result with the next paint."""
        self._rows = rows
        if not self.is_running:
            self._show_rows()
        elif self._frame is None:
            self._frame = self.set_timer(FRAME, self._show_rows)

    def _show_rows(self) -> None:
        self._frame = None
        self.show(self._rows())

    def show(self, rows: Sequence[AgentRow]) -> None:
        """Show these agents in this order. Unchanged rows are not redrawn; the cursor keeps its agent."""
        pointed = self.selected_agent
        before, self.agents = self.agents, tuple(rows)
        ids = [row.agent for row in self.agents]
        if [row.agent for row in before] != ids:
            self.reset(len(self.agents))
            if pointed is not None and pointed.agent in ids:
                self.move_to(ids.index(pointed.agent))
        else:
            for index, (old, new) in enumerate(zip(before, self.agents, strict=True)):
                if old != new:
                    self.update_row(index)
        if [row.state for row in before] != [row.state for row in self.agents]:
            self._reveal_newest()
            self.reshaped()
        self._tick()

    def _reveal_newest(self) -> None:
        """Scroll to the newest agent, but not past one that works."""
        if self.agents and self.is_running and not self.has_focus:
            last = len(self.agents) - 1
            self.move_to(last)
            self.move_to(next((at for at, row in enumerate(self.agents) if row.state in LIVE), last))

    def on_resize(self) -> None:
        self._reveal_newest()

    def set_motion(self, motion: bool) -> None:
        """Enable or disable motion."""
        if motion != self.motion:
            self.motion = motion
            self.repaint()

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self._redraw_running, pause=True)
        self._tick()

    def _tick(self) -> None:
        if self._ticker is not None:
            running = any(row.since is not None for row in self.agents)
            self._ticker.resume() if running else self._ticker.pause()

    def _redraw_running(self) -> None:
        for index, row in enumerate(self.agents):
            if row.since is not None and row.state in LIVE:
                self.update_row(index)

    def wanted_lines(self, width: int) -> int:
        lines = [(row.since is None, height(row)) for row in self.agents]
        ended = sum(tall for over, tall in lines if over)
        return sum(tall for over, tall in lines if not over) + min(ended, LINES_OF_ENDED) or 1

    def figure(self) -> str:
        live = self._live()
        return f"{live} live" if live else str(len(self.agents) or "")

    def title_end(self) -> Text:
        above, below = self._view.hidden()
        waiting = self._waiting()
        line = super().title_end()
        for count, words, role in (
            (waiting, f"{glyph('waiting')}{waiting}", "warning"),
            (below, f"{below} more below", "dim"),
            (above, f"{above} more above", "dim"),
        ):
            if count:
                line = Text.assemble((words, self.ink(role, bold=role == "warning")), "  ", line)
        return line

    def summary(self) -> Summary:
        return Summary(self.title, str(self._live() or len(self.agents)), alerts=self._waiting())

    def _waiting(self) -> int:
        return sum(row.state == "waiting" for row in self.agents)

    def _live(self) -> int:
        return sum(row.state in LIVE for row in self.agents)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.post_message(self.Opened(self.agents[event.index].agent))

    def action_ask(self, what: Order) -> None:
        if (row := self.selected_agent) is not None:
            self.post_message(self.Asked(what, row.agent))

    def _text(self, index: int) -> str:
        row = self.agents[index]
        mark = f"{unmerged_mark(row)} not merged" if unmerged_mark(row) else ""
        return f"{one_line(row.name)} {WORDS[row.state]} {one_line(row.action)} {one_line(row.goal)} {mark}"

    def _row(self, index: int, width: int) -> Sequence[Text]:
        look = AgentRowStyle(self.ink, self._clock(), self.motion, self._ascii_only)
        return row_lines(self.agents[index], width, look)


class AgentHeader(DrawnRow):
    """A header `▶ callers works · agent-1 0:42 · 11 calls · 8.1k ▕██░░▏ $0.03` above goal and action.

    For a finished agent, its unmerged changes replace the action.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "AgentHeader { height: 2; }"

    def __init__(
        self, row: Callable[[], AgentRow | None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`row` returns the agent's current state; `clock` returns seconds, as in the row."""
        super().__init__()
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        self._ascii_only = draws_ascii_only(os.environ)
        self._row = row
        self._clock = clock
        self._ticker: Timer | None = None

    def set_motion(self, motion: bool) -> None:
        """Enable or disable motion."""
        self.motion = motion
        self.refresh()

    def update_agent(self) -> None:
        """Redraw after the agent has changed, with a running clock only while it works."""
        if self._ticker is not None:
            row = self._row()
            works = row is not None and row.since is not None
            self._ticker.resume() if works else self._ticker.pause()
        self.refresh()

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self.refresh, pause=True)
        self.update_agent()

    def render_line(self, y: int) -> Strip:
        row, width = self._row(), self.size.width
        base = self.palette.style("text")
        line = Text()
        if row is not None and y < 2:
            line = self._who(row, width) if y == 0 else self._what(row, width)
        return to_strip(line, width, base, self.app.console)

    def _who(self, row: AgentRow, width: int) -> Text:
        glyph, role, *_ = state_of(row.state)
        style = self.palette.style
        left = Text.assemble(
            " ",
            (glyph, style(role)),
            " ",
            (one_line(row.name), style("text", bold=True)),
            style=style("text"),
        )
        left.append(f"  {WORDS[row.state]}", style(role if row.state not in LIVE else "text"))
        if row.name != row.agent:
            left.append(f" · {one_line(row.agent)}", style("dim"))
        tight = row.budget is not None and row.budget >= TIGHT
        right = Text(
            f"{usage_line(row, max(width * 3 // 5, 24), self._clock())} ",
            style("warning" if tight else "dim"),
        )
        return spread(fit(left, max(width - right.cell_len - 1, 8)), right, width)

    def _what(self, row: AgentRow, width: int) -> Text:
        style = self.palette.style
        look = AgentRowStyle(style, self._clock(), self.motion, self._ascii_only)
        left = Text(f"   {one_line(row.goal)}", style("dim"))
        if row.state not in LIVE:
            mark = f"{unmerged_mark(row)} not merged " if unmerged_mark(row) else ""
            return spread(left, Text(mark, style("warning")), width)
        share = f"  {status.percent(row.budget)} of its budget" if row.budget is not None else ""
        right = Text.assemble(
            fit(
                Text(current_action(row), style("text" if row.state == "running" else "warning")), width // 2
            ),
            (share, style("dim")),
            (f" {speed_of(row, look)}".rstrip(), style("accent")),
            " ",
        )
        return spread(left, fit(right, max(width * 2 // 3, 10)), width)
