"""The subagents, one or two lines each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message
from textual.timer import Timer

from widgets.panes import figures
from widgets.panes.pane import Pane, Summary
from widgets.row_text import fit, one_line, spread
from widgets.rows import RowList

AgentState = Literal["pending", "running", "waiting", "done", "failed", "denied", "interrupted"]
"""`waiting`: it asks the person something."""

LOOKS: Mapping[AgentState, tuple[str, str]] = {
    "pending": ("○", "dim"),
    "running": ("▶", "accent"),
    "waiting": ("◆", "warning"),
    "done": ("✓", "success"),
    "failed": ("✗", "error"),
    "denied": ("⊘", "warning"),
    "interrupted": ("■", "warning"),
}
LIVE: frozenset[AgentState] = frozenset({"running", "waiting"})
NAME_CELLS = 8
DEEPEST = 4
"""Levels below which a row is no longer indented."""
TIGHT = 0.9
"""Share of the budget from which the figures change colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One subagent as it stands. None means unknown."""

    agent: str
    """Its id, as in events."""
    name: str
    state: AgentState
    action: str = ""
    """What it does now or, when it is over, what came of it."""
    seconds: float | None = None
    """How long it has worked."""
    since: float | None = None
    """While it works: when it began, on the clock of the pane (seconds, monotonic), instead of `seconds`."""
    depth: int = 0
    """How many agents stand between it and the main one."""
    calls: int = 0
    tokens: int | None = None
    budget: float | None = None
    """The share of its budget that is used, 0 to 1."""
    cost: float | None = None
    """US dollars."""


class AgentsPane(Pane):
    """Who else is at work, on what, and what it takes. Out of sight while there is nobody."""

    class Opened(Message):
        """The person wants to see the transcript of a subagent."""

        def __init__(self, agent: str) -> None:
            super().__init__()
            self.agent = agent

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(
            "agents",
            self._row,
            title="AGENTS",
            search_text=self._text,
            empty="No subagents. Large tasks are shared out here.",
        )
        self.agents: tuple[AgentRow, ...] = ()
        self._clock = clock
        self._ticker: Timer | None = None

    @property
    def vacant(self) -> bool:
        return not self.agents

    def show(self, rows: Sequence[AgentRow]) -> None:
        """Show these subagents, in this order. Unchanged rows are not drawn again."""
        before, self.agents = self.agents, tuple(rows)
        if [row.agent for row in before] != [row.agent for row in self.agents]:
            self.reset(len(self.agents))
        else:
            for index, (old, new) in enumerate(zip(before, self.agents, strict=True)):
                if old != new:
                    self.changed(index)
        if [row.state for row in before] != [row.state for row in self.agents]:
            self.reshaped()
        self._tick()

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self._redraw_running, pause=True)
        self._tick()

    def _tick(self) -> None:
        if self._ticker is not None:
            running = any(row.since is not None for row in self.agents)
            self._ticker.resume() if running else self._ticker.pause()

    def _redraw_running(self) -> None:
        for index, row in enumerate(self.agents):
            if row.since is not None:
                self.changed(index)

    def wanted_lines(self, width: int) -> int:
        return sum(2 if row.state in LIVE else 1 for row in self.agents) or 1

    def figure(self) -> str:
        live = self._live()
        return f"{live} live" if live else str(len(self.agents) or "")

    def title_end(self) -> Text:
        waiting = self._waiting()
        if not waiting:
            return super().title_end()
        return Text.assemble((f"◆{waiting}", self.ink("warning", bold=True)), "  ", super().title_end())

    def summary(self) -> Summary:
        return Summary(self.title, str(self._live() or len(self.agents)), alerts=self._waiting())

    def _waiting(self) -> int:
        return sum(row.state == "waiting" for row in self.agents)

    def _live(self) -> int:
        return sum(row.state in LIVE for row in self.agents)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.post_message(self.Opened(self.agents[event.index].agent))

    def _text(self, index: int) -> str:
        row = self.agents[index]
        return f"{one_line(row.name)} {row.state} {one_line(row.action)}"

    def _row(self, index: int, width: int) -> Sequence[Text]:
        row = self.agents[index]
        glyph, role = LOOKS[row.state]
        live = row.state in LIVE
        indent = _indent(row)
        room = max(width // 3 - len(indent), NAME_CELLS)
        name = fit(Text(one_line(row.name), self.ink("text", bold=live)), room)
        name.pad_right(max(NAME_CELLS - name.cell_len, 0))
        first = Text.assemble(" ", (glyph, self.ink(role)), " ", (indent, self.ink("rule")), name, " ")
        first.append(one_line(row.action) or row.state, self.ink("text" if live else "dim"))
        hint = Text("⏎ ", self.ink("warning")) if row.state == "waiting" else Text(" ")
        lines = [spread(first, hint, width)]
        if live:
            lines.append(fit(self._figures(row, width), width))
        return lines

    def _seconds(self, row: AgentRow) -> float | None:
        return row.seconds if row.since is None else self._clock() - row.since

    def _figures(self, row: AgentRow, width: int) -> Text:
        """What it took so far. Short of room, the gauge goes first, then the number of calls."""
        calls = f"{row.calls} call{'s' * (row.calls != 1)}"
        gauge = "" if row.budget is None else figures.gauge(row.budget, 4)
        cost = "" if row.cost is None else figures.money(row.cost)
        line = ""
        for figure, bar in ((calls, gauge), (calls, ""), ("", "")):
            parts = (figures.elapsed(self._seconds(row)), figure, figures.tokens(row.tokens))
            words = " · ".join(part for part in parts if part)
            line = "   " + " " * len(_indent(row)) + " ".join(part for part in (words, bar, cost) if part)
            if cell_len(line) < width:
                break
        tight = row.budget is not None and row.budget >= TIGHT
        return Text(line, self.ink("warning" if tight else "dim"))


def _indent(row: AgentRow) -> str:
    """What shows that another subagent sent it."""
    depth = min(row.depth, DEEPEST)
    return "  " * (depth - 1) + "└ " if depth else ""
