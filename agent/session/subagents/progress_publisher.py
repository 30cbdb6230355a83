"""Publishes the state of an agent as events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agent.events import AgentEnded, AgentProgressed, AgentStarted, Event
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import TURN_OUTCOMES, AgentReport
from tools.text.safe_text import clean

SUMMARY = 300
"""Characters of a report that its event carries."""
ACTION = 120
"""Characters of what an agent does."""


@dataclass(frozen=True, slots=True)
class ProgressPublisher:
    """Tells how agents stand."""

    emit: Callable[[Event], None]

    def begins(self, run: LiveAgent) -> None:
        """It was sent, or goes on after its end."""
        name = run.task.name or run.id
        started = AgentStarted(
            agent=run.id, parent=run.parent, call=run.call, name=clean(name), goal=clean(run.task.goal)
        )
        self.emit(started)

    def stands(self, run: LiveAgent) -> None:
        """Show how it stands; one that has ended is not told of again."""
        if run.is_over:
            return
        state: Literal["pending", "running", "waiting", "paused"] = "running"
        if run.pause.on:
            state = "paused"
        elif run.state == "queued":
            state = "pending"
        elif run.waiting:
            state = "waiting"
        self.emit(
            AgentProgressed(
                agent=run.id,
                state=state,
                action="paused" if run.pause.on else clean(run.action)[:ACTION],
                calls=run.calls,
                tokens=run.tally.tokens,
                cost=run.tally.cost,
                budget=run.account.share(),
            )
        )

    def ended(self, run: LiveAgent, report: AgentReport) -> None:
        self.emit(
            AgentEnded(
                agent=run.id,
                outcome=TURN_OUTCOMES[report.outcome],
                summary=clean(report.summary or report.error)[:SUMMARY],
                seconds=report.seconds,
                calls=run.calls,
                tokens=report.usage.tokens,
                cost=report.usage.cost,
                budget=run.account.share(),
            )
        )
