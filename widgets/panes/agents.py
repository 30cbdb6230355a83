"""The agents at work for the session: a row for each, and the keys that steer it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer

from widgets.panes.agent_row import LIVE, WORDS, AgentRow, AgentRowStyle, AgentState, drawn, height, unmerged
from widgets.panes.pane import Pane, Summary
from widgets.panes.sparkline import draws_ascii_only
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line

__all__ = ["AgentRow", "AgentState", "AgentsPane"]

Order = Literal["kill", "pause", "merge", "merge_all", "clear"]

FRAME = 1 / 30
"""Seconds between two pictures, however often something is told."""
LINES_OF_ENDED = 6
"""Lines that agents that are over ask for together; the others are reached by scrolling."""


class AgentsPane(Pane):
    """Who else is at work, on what, and what it takes. Out of sight while there is nobody."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "ask('kill')", "Stop the agent for good", id="agents.kill"),
        Binding("p", "ask('pause')", "Pause the agent, or let it go on", id="agents.pause"),
        Binding("m", "ask('merge')", "Merge what the agent changed in its copy", id="agents.merge"),
        Binding("M", "ask('merge_all')", "Merge all copies, one after the other", id="agents.merge_all"),
        Binding("x", "ask('clear')", "Clear away agents that are over", id="agents.clear"),
    ]
    KEYS: ClassVar[str] = "⏎ open · k kill · p pause · mM merge one, all · x clear ended · "

    class Opened(Message):
        """The person wants to see the conversation of an agent."""

        def __init__(self, agent: str) -> None:
            super().__init__()
            self.agent = agent

    class Asked(Message):
        """The person wants something done with an agent; what `clear` and `merge_all` do is about all."""

        def __init__(self, what: Order, agent: str) -> None:
            super().__init__()
            self.what: Order = what
            self.agent = agent

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, ascii_only: bool | None = None
    ) -> None:
        """`ascii_only` None: as the terminal says."""
        super().__init__(
            "agents",
            self._row,
            title="AGENTS",
            search_text=self._text,
            empty="No agents. Large tasks are shared out here.",
        )
        self.agents: tuple[AgentRow, ...] = ()
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        """Whether speed is drawn as bars that move; else it is told in words."""
        self._ascii_only = draws_ascii_only(os.environ) if ascii_only is None else ascii_only
        self._clock = clock
        self._ticker: Timer | None = None
        self._frame: Timer | None = None
        self._rows: Callable[[], Sequence[AgentRow]] = tuple

    @property
    def vacant(self) -> bool:
        return not self.agents

    @property
    def pointed(self) -> AgentRow | None:
        """The agent under the cursor."""
        row = self.cursor
        return self.agents[row] if row is not None and row < len(self.agents) else None

    def soon(self, rows: Callable[[], Sequence[AgentRow]]) -> None:
        """With the next picture, show what `rows` gives then."""
        self._rows = rows
        if not self.is_running:
            self._show_rows()
        elif self._frame is None:
            self._frame = self.set_timer(FRAME, self._show_rows)

    def _show_rows(self) -> None:
        self._frame = None
        self.show(self._rows())

    def show(self, rows: Sequence[AgentRow]) -> None:
        """Show these agents, in this order. Unchanged rows are not drawn again; the cursor stays put."""
        pointed = self.pointed
        before, self.agents = self.agents, tuple(rows)
        ids = [row.agent for row in self.agents]
        if [row.agent for row in before] != ids:
            self.reset(len(self.agents))
            if pointed is not None and pointed.agent in ids:
                self.move_to(ids.index(pointed.agent))
        else:
            for index, (old, new) in enumerate(zip(before, self.agents, strict=True)):
                if old != new:
                    self.changed(index)
        if [row.state for row in before] != [row.state for row in self.agents]:
            self.reshaped()
        self._tick()

    def move(self, motion: bool) -> None:
        """Whether anything moves."""
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
                self.changed(index)

    def wanted_lines(self, width: int) -> int:
        lines = [(row.since is None, height(row)) for row in self.agents]
        ended = sum(tall for over, tall in lines if over)
        return sum(tall for over, tall in lines if not over) + min(ended, LINES_OF_ENDED) or 1

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

    def action_ask(self, what: Order) -> None:
        if (row := self.pointed) is not None:
            self.post_message(self.Asked(what, row.agent))

    def _text(self, index: int) -> str:
        row = self.agents[index]
        mark = f"{unmerged(row)} not merged" if unmerged(row) else ""
        return f"{one_line(row.name)} {WORDS[row.state]} {one_line(row.action)} {one_line(row.goal)} {mark}"

    def _row(self, index: int, width: int) -> Sequence[Text]:
        look = AgentRowStyle(self.ink, self._clock(), self.motion, self._ascii_only)
        return drawn(self.agents[index], width, look)
