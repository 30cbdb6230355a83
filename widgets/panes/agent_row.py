"""One agent as a row: what is known of it, and how that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.style import Style
from rich.text import Text

from tools.text.words import plural
from widgets.panes import figures
from widgets.panes.sparkline import Pulse, bars, pace
from widgets.rows.row_text import fit, one_line, spread

AgentState = Literal[
    "pending", "running", "waiting", "paused", "stopping", "done", "failed", "denied", "interrupted", "budget"
]
"""`waiting`: it asks the person something; `stopping`: it was told to stop and has not ended yet."""

LOOKS: Mapping[AgentState, tuple[str, str]] = {
    "pending": ("○", "dim"),
    "running": ("▶", "accent"),
    "waiting": ("◆", "warning"),
    "paused": ("‖", "warning"),
    "stopping": ("■", "warning"),
    "done": ("✓", "success"),
    "failed": ("✗", "error"),
    "denied": ("⊘", "warning"),
    "interrupted": ("■", "warning"),
    "budget": ("■", "warning"),
}
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
"""The state as a person says it."""
LIVE: frozenset[AgentState] = frozenset({"running", "waiting", "paused", "stopping"})
UNDER_WAY: frozenset[AgentState] = frozenset({*LIVE, "pending"})
"""All that are not over."""
NAME_CELLS = 8
DEEPEST = 4
"""Levels below which a row is no longer indented."""
TIGHT = 0.9
"""Share of the budget from which the figures change colour."""
ROOMY = 60
"""Cells from which on a row of one that is over tells what it took."""

Ink = Callable[..., Style]
"""The style of text in a role, as `RowList.ink` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One agent as it stands. None means unknown."""

    agent: str
    """Its id, as in events."""
    name: str
    state: AgentState
    goal: str = ""
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
    unmerged: int = 0
    """Paths that it changed in its copy and nobody merged or discarded."""
    pulse: Pulse = field(default_factory=Pulse)
    """How its tokens were counted, on the clock of the pane."""

    def worked(self, now: float) -> float | None:
        """Seconds it has worked."""
        return self.seconds if self.since is None else now - self.since


@dataclass(frozen=True, slots=True)
class AgentRowStyle:
    """What decides how rows are drawn, beside the rows. `now` is the clock of the pane."""

    ink: Ink
    now: float
    motion: bool = True
    """Whether anything may move; without it speed is told in words."""
    ascii_only: bool = False


def height(row: AgentRow) -> int:
    """Lines of a row."""
    return 1 if row.state not in LIVE else 3 if row.goal else 2


def drawn(row: AgentRow, width: int, look: AgentRowStyle) -> Sequence[Text]:
    """The lines of a row: what it is for, what it does, what it took; one line where it does nothing."""
    glyph, role = LOOKS[row.state]
    live = row.state in LIVE
    ink = look.ink
    depth = min(row.depth, DEEPEST)
    indent = "  " * (depth - 1) + "└ " if depth else ""
    room = max(width // 3 - len(indent), NAME_CELLS)
    name = fit(Text(one_line(row.name), ink("text" if row.state in UNDER_WAY else "dim", bold=live)), room)
    name.pad_right(max(NAME_CELLS - name.cell_len, 0))
    first = Text.assemble(" ", (glyph, ink(role)), " ", (indent, ink("rule")), name, " ")
    if not live:
        first.append(_said(row), ink("dim"))
        end = _took(row, width, ink)
        if mark := unmerged(row):
            end = Text.assemble((mark, ink("warning")), "  " if end.plain.strip() else "", end)
        return [spread(first, end, width)]
    hint = Text("⏎ ", ink("warning")) if row.state == "waiting" else Text(" ")
    goal = one_line(row.goal)
    first.append(goal or doing(row), ink("text"))
    lines = [spread(first, hint, width)]
    margin = "   " + " " * len(indent)
    speed = Text(f"{speed_of(row, look)} ", ink("accent"))
    if goal:
        told = Text(margin + doing(row), ink("warning" if row.state != "running" else "dim"))
        lines.append(spread(told, speed if speed.plain.strip() else Text(" "), width))
    tight = row.budget is not None and row.budget >= TIGHT
    lines.append(
        fit(
            Text(margin + took(row, width - len(margin), look.now), ink("warning" if tight else "dim")), width
        )
    )
    return lines


def doing(row: AgentRow) -> str:
    """What it does now, in a few words."""
    return WORDS[row.state] if row.state != "running" else one_line(row.action) or WORDS["running"]


def speed_of(row: AgentRow, look: AgentRowStyle) -> str:
    """How fast it uses tokens: bars, or where nothing may move, words; empty while that is not known."""
    rates = row.pulse.rates(look.now)
    if not any(rates):
        return ""
    if not look.motion:
        return f"{figures.tokens(round(pace(rates)))} tok/s"
    return bars(rates, ascii_only=look.ascii_only)


def took(row: AgentRow, width: int, now: float) -> str:
    """Time, calls, tokens, budget and money. Short of room, the gauge goes first, then the calls."""
    calls = plural(row.calls, "call")
    gauge = "" if row.budget is None else figures.gauge(row.budget, 4)
    cost = "" if row.cost is None else figures.money(row.cost)
    line = ""
    for figure, bar in ((calls, gauge), (calls, ""), ("", "")):
        taken = [figures.tokens(row.tokens), cost]
        if bar:
            taken = [" ".join(filter(None, (taken[0], bar, cost)))]
        line = " · ".join(filter(None, (figures.elapsed(row.worked(now)), figure, *taken)))
        if len(line) < width:
            break
    return line


def unmerged(row: AgentRow) -> str:
    """The mark of one that is over and whose changes wait to be merged: how many paths."""
    return f"±{row.unmerged:,}" if row.unmerged and row.state not in LIVE else ""


def _said(row: AgentRow) -> str:
    """What stands in the row of one that does nothing now."""
    if row.state == "pending":
        return one_line(row.goal) or WORDS["pending"]
    return " · ".join(filter(None, (WORDS[row.state], one_line(row.action))))


def _took(row: AgentRow, width: int, ink: Ink) -> Text:
    """What one that is over took, where there is room for it."""
    if width < ROOMY or row.state == "pending" or row.seconds is None:
        return Text(" ")
    cost = f" · {figures.money(row.cost)}" if row.cost is not None else ""
    return Text(f"{figures.elapsed(row.seconds)} · {figures.tokens(row.tokens)}{cost} ", ink("dim"))
