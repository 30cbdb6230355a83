"""The agents of one session: opening, restoring, and access for tool calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.session.spending.budget import Budget, BudgetAccount
from agent.session.subagents.delegate_service import DelegateService
from agent.session.subagents.forecast import FirstRequest, Forecaster
from agent.session.subagents.live_agent import MAIN_AGENT
from agent.session.subagents.scheduler import AgentLimits, Scheduler
from agent.session.subagents.subagent import Services
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import SubagentSettings
    from agent.session.turns.turn_queue import TurnQueue
    from agent.workspace.checkpoints.entries import Step


@dataclass(frozen=True, slots=True)
class SessionAgents:
    """The agents that a session has started, and the service that starts more."""

    scheduler: Scheduler
    delegates: Callable[[str, str], DelegateService]
    """Creates the service for an agent's id and the id of its call."""
    turn_queue: TurnQueue
    """The turn queue of the session's own agent."""

    def step_of(self, call: str) -> Step | None:
        """Return and forget the step in which a call of the session's own agent merged a copy.

        Returns None if there is none.
        """
        return self.scheduler.services.workspaces.step_of(MAIN_AGENT, call)

    def of_main(self, call: str) -> DelegateService:
        """Return the delegate service for a call of the session's own agent."""
        return self.delegates(MAIN_AGENT, call)

    async def find_again(self) -> None:
        """Restore the agents of an earlier process.

        The model is notified about agents that were interrupted and about copies with changes.
        """
        cut = await self.scheduler.recover_children()
        await self.scheduler.news.catch_up(self.scheduler.services.store, self.scheduler.services.root)
        copies = self.scheduler.services.workspaces.copies
        if holding := await copies.find_again(self.scheduler.runs()):
            self.turn_queue.remember(
                f"[The copies of {clean(', '.join(sorted(holding)))} hold changes that are not merged: "
                "`subagents` diff shows them, merge or discard settles them.]"
            )
        if cut:
            names = ", ".join(report.id for report in cut)
            self.turn_queue.remember(
                f"[Hermes ended while agents worked: {clean(names)} are marked as interrupted. "
                "`subagents` shows them and resumes each where it stopped.]"
            )


def limits_of(settings: SubagentSettings) -> AgentLimits:
    """Return the limits in the settings."""
    return AgentLimits(
        at_once=settings.at_once,
        depth=settings.depth,
        each=Budget(turns=settings.turns, seconds=settings.seconds),
        all=Budget(tokens=settings.tokens, money=settings.money),
    )


def open_session_agents(
    services: Services,
    settings: SubagentSettings,
    turn_queue: TurnQueue,
    beginning: FirstRequest,
    account: BudgetAccount,
) -> SessionAgents:
    """Return the agents of a session, none yet. They charge `account` in addition to their own accounts."""
    scratch = services.workspaces.shared.reach.scratch / "reports"

    def delegates(agent: str, call: str) -> DelegateService:
        return DelegateService(scheduler, agent, call, scratch, forecaster)

    scheduler = Scheduler(services, limits_of(settings), account, delegates, turn_queue=turn_queue)
    decisions = services.ceiling_questions.decisions
    decisions.apply(scheduler.account.owner, scheduler.account)
    forecaster = Forecaster(scheduler, settings.forecast_tokens, beginning, decisions)
    services.ceiling_questions.living = scheduler.living
    return SessionAgents(scheduler, delegates, turn_queue)
