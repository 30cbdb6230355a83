"""Stopping agents, each with all it sent."""

from __future__ import annotations

import asyncio
from typing import Literal

from agent.session.pending_requests import PendingRequests
from agent.session.subagents.agent_register import AgentRegister
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import AgentReport

Why = Literal["killed", "budget", "interrupted"]


class Stopper:
    """Ends the work of agents; what each had done becomes its report."""

    def __init__(self, register: AgentRegister, pending_requests: PendingRequests) -> None:
        self._register = register
        self._inbox = pending_requests

    def stop(self, run: LiveAgent, why: Why) -> None:
        """Let an agent end, without waiting for it. What it asked a person is cancelled."""
        if run.is_over:
            return
        run.stop = run.stop or why
        for each in self._register.below(run.id):
            self.stop(each, "killed" if why == "killed" else "interrupted")
        self._inbox.cancel_all(run.id)
        if run.job is not None:
            # Not at once: a task that has not run yet would be dropped with its report.
            asyncio.get_running_loop().call_soon(run.job.cancel)

    async def kill(self, run: LiveAgent) -> AgentReport:
        """Stop an agent for good; its report. No request leaves after."""
        self.stop(run, "killed")
        await run.over.wait()
        assert run.report is not None
        return run.report

    async def end_all(self) -> None:
        """Stop every agent and wait for its report; each can be let go on later."""
        runs = self._register.all()
        for run in runs:
            self.stop(run, "interrupted")
        await asyncio.gather(*(run.over.wait() for run in runs if not run.is_over))
