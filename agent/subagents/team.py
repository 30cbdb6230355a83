"""The agents of one session as its other parts meet them: opened, found again, reached by calls, closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.subagents.budget import Budget, Purse
from agent.subagents.child import Services
from agent.subagents.forecaster import Beginning, Forecaster
from agent.subagents.run import MAIN_AGENT
from agent.subagents.scheduler import Limits, Scheduler
from agent.subagents.service import DelegateService
from tools.text import clean

if TYPE_CHECKING:
    from agent.config.schema import SubagentSettings
    from agent.mailbox import Mailbox
    from agent.workspace.checkpoints.entries import Step


@dataclass(frozen=True, slots=True)
class Team:
    """The agents that a session has sent and can send."""

    scheduler: Scheduler
    delegates: Callable[[str, str], DelegateService]
    """By the agent and its call."""
    mailbox: Mailbox
    """That of the session's own agent."""

    def step_of(self, call: str) -> Step | None:
        """The step that a call of the session's own agent was, if it merged a copy; told once."""
        return self.scheduler.services.grounds.step_of(MAIN_AGENT, call)

    def of_main(self, call: str) -> DelegateService:
        """What a call of the session's own agent sees."""
        return self.delegates(MAIN_AGENT, call)

    async def find_again(self) -> None:
        """Know the agents of an earlier process; the model hears of those that were cut off.

        It also hears of copies that hold changes.
        """
        cut = await self.scheduler.recover_children()
        await self.scheduler.news.catch_up(self.scheduler.services.store, self.scheduler.services.root)
        copies = self.scheduler.services.grounds.copies
        if copies is not None and (holding := await copies.find_again(self.scheduler.runs())):
            self.mailbox.remember(
                f"[The copies of {clean(', '.join(sorted(holding)))} hold changes that are not merged: "
                "`subagents` diff shows them, merge or discard settles them.]"
            )
        if cut:
            names = ", ".join(report.id for report in cut)
            self.mailbox.remember(
                f"[Hermes ended while agents worked: {clean(names)} are marked as interrupted. "
                "`subagents` shows them and resumes each where it stopped.]"
            )


def limits_of(settings: SubagentSettings) -> Limits:
    """The ceilings that the settings give."""
    return Limits(
        at_once=settings.at_once,
        depth=settings.depth,
        each=Budget(turns=settings.turns, seconds=settings.seconds),
        all=Budget(tokens=settings.tokens, money=settings.money),
    )


def open_team(
    services: Services,
    settings: SubagentSettings,
    mailbox: Mailbox,
    beginning: Beginning,
    purse: Purse | None = None,
) -> Team:
    """The agents of a session. `purse` is what they take from, besides their own ceilings."""
    scratch = services.grounds.shared.reach.scratch / "reports"

    def delegates(agent: str, call: str) -> DelegateService:
        return DelegateService(scheduler, agent, call, scratch, forecaster)

    root = purse or Purse("the session", Budget())
    scheduler = Scheduler(services, limits_of(settings), root, delegates, mailbox=mailbox)
    decisions = services.raiser.decisions
    decisions.apply(scheduler.purse.owner, scheduler.purse)
    forecaster = Forecaster(scheduler, settings.forecast_tokens, beginning, decisions)
    services.raiser.living = scheduler.living
    return Team(scheduler, delegates, mailbox)
