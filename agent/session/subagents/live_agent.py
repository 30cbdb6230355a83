"""One agent while it is known: what it does, what it may, how it can be reached."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.core.store.nodes import Session
from agent.model.transport.waits import Pause
from agent.session.spending.budget import BudgetAccount
from agent.session.spending.metered_client import RequestTally
from agent.session.subagents.foreign_agent import ForeignAgent
from agent.session.subagents.records import AgentReport, Task
from agent.session.wiring.agent import Agent

MAIN_AGENT = "main"
"""The session's own agent."""


@dataclass(slots=True, kw_only=True, eq=False)
class LiveAgent:
    """An agent of the session. Times are in seconds of the scheduler's clock."""

    id: str
    task: Task
    parent: str
    call: str
    depth: int
    record: Session
    account: BudgetAccount
    pause: Pause
    ground_of: str
    """The agent in whose copy it works; empty where it works in the workspace."""
    asked: float
    """When it began to wait for work or room."""
    tally: RequestTally = field(default_factory=RequestTally)
    state: Literal["queued", "running", "reporting", "ended"] = "queued"
    stop: Literal["", "killed", "budget", "interrupted"] = ""
    """Why it is being stopped."""
    child: Agent | ForeignAgent | None = None
    job: asyncio.Task[None] | None = None
    report: AgentReport | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    inputs: list[str] = field(default_factory=list)
    """What it was told and reads when it works next; `agent.session.subagents.undelivered` keeps it."""
    door: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while its session is opened or closed for work, and while it is told something."""
    calls: int = 0
    action: str = ""
    waiting: int = 0
    """How many things it waits for from a person."""
    waits_since: float = 0.0
    files: dict[str, None] = field(default_factory=dict)
    """Paths that its steps changed."""
    changed: dict[Path, None] = field(default_factory=dict)
    """Paths that its file tools were allowed to change since it was opened."""
    notices: set[asyncio.Task[None]] = field(default_factory=set)
    """Who waits to tell that it has ended."""

    @property
    def is_over(self) -> bool:
        return self.state == "ended"

    @property
    def standing(self) -> str:
        """Its state in one word."""
        if self.report is not None:
            return self.report.outcome
        return "paused" if self.pause.on else self.state

    def take_inputs(self) -> list[str]:
        taken, self.inputs = self.inputs, []
        return taken
