"""Before many agents are sent, the person sees what they are going to take, and decides."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from agent.core.event_data import Forecast, ForecastSpan, Measure
from agent.core.store.nodes import Node
from agent.errors import StoreError
from agent.events import Room
from agent.model.catalog import UNKNOWN
from agent.session.spending.agent_usage import tokens_of_ended
from agent.session.spending.budget import Budget, BudgetAccount, Charge
from agent.session.spending.decisions import Decisions
from agent.session.subagents.agent_table import ENDED
from agent.session.subagents.forecast import Planned, forecast
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import Task
from agent.session.subagents.scheduler import Scheduler
from agent.session.subagents.subagent import offered
from tools.results import ToolError
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

UNBOUNDED = (
    "Nobody is there to agree to agents that may take {tokens:,.0f} tokens, and no ceiling bounds them. "
    "Give each a budget, set subagents.tokens, or set subagents.forecast_tokens to null."
)
DECLINED = "The user does not want these agents to be sent."
WITHDRAWN = "The question whether these agents are sent was withdrawn before it was answered; none was sent."


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """What the first request of an agent is made of, beside tools and task."""

    tokens: Callable[[int], int]
    """Tokens of a text of so many bytes, as learned from what providers counted."""
    system: Callable[[], Node | None]
    """The system prompt of the session, which theirs resemble."""


@dataclass(slots=True)
class Forecaster:
    """Asks about agents of one session before they are sent. `threshold` is in tokens of the high end."""

    scheduler: Scheduler
    threshold: int | None
    """0: always asks, None: never."""
    beginning: FirstRequest
    decisions: Decisions
    """Whether the person wants to be asked at all in this session."""

    async def agree(self, tasks: Sequence[Task], agent: str, reads: Sequence[int]) -> bool:
        """Return when `agent` may send agents for these tasks; True if the person was asked and agreed.

        `reads` are the answers of others that each of them reads besides.
        Raises `ToolError` if the person does not want it, or if nobody is there and nothing bounds them.
        """
        if self.threshold is None or self.decisions.unasked:
            return False
        sender = self.scheduler.sender(agent)
        rooms = await self._rooms(self.scheduler.account if sender is None else sender.account)
        made = await self._forecast(tasks, reads, sender, rooms)
        # What a lone agent takes is not worth a question as long as nothing but a guess speaks of it.
        small = made.tokens.high <= self.threshold or (made.agents == 1 and not made.from_past)
        if self.threshold > 0 and small:
            return False
        pending_requests = self.scheduler.services.pending_requests
        if not pending_requests.attended:
            self._check_bounded(made, tasks, rooms)
            return False
        with self.scheduler.asking(sender):
            decision = await pending_requests.foresee(made, rooms, agent)
        if decision.choice in ("once", "session", "always"):
            if decision.choice != "once":
                await self.decisions.ask_no_more()
            return True
        said = f" They say: {decision.feedback}" if decision.feedback else ""
        sentence = f"{DECLINED}{said}" if decision.choice == "deny" else WITHDRAWN
        raise ToolError(sentence, outcome=decision.choice)

    async def _forecast(
        self, tasks: Sequence[Task], reads: Sequence[int], sender: LiveAgent | None, rooms: Sequence[Room]
    ) -> Forecast:
        """What the agents take together, within what is left."""
        spending = self.scheduler.services.metering.spending
        try:
            past = await spending.database.read(lambda connection: tokens_of_ended(connection, ENDED))
        except StoreError as error:
            log.warning("what ended agents took could not be read: %s", error)
            past = []
        planned = [self._planned(task, count, sender) for task, count in zip(tasks, reads, strict=True)]
        tokens = _least(rooms, "tokens")
        made = forecast(planned, past, None if tokens is None else int(tokens))
        funds = _least(rooms, "money")
        if made.money is None or funds is None:
            return made
        return replace(made, money=ForecastSpan(min(made.money.low, funds), min(made.money.high, funds)))

    def _planned(self, task: Task, reads: int, sender: LiveAgent | None) -> Planned:
        services, limits = self.scheduler.services, self.scheduler.limits
        model = services.models.label(task.model)
        depth = 1 if sender is None else sender.depth + 1
        tools = offered(services, task, depth, depth >= limits.depth)
        told = json.dumps([[tool.name, tool.description, tool.parameters] for tool in tools])
        system = self.beginning.system()
        size = sum(len(text.encode("utf-8", "replace")) for text in (told, task.message()))
        size += 0 if system is None else len(system.content.encode("utf-8", "replace"))
        return Planned(
            goal=clean(task.goal),
            model=clean(model),
            info=services.models.infos.get(model, UNKNOWN),
            start=self.beginning.tokens(size),
            budget=limits.each.within(task.budget),
            only_answers=task.only_answers,
            reads=reads,
        )

    async def _rooms(self, account: BudgetAccount) -> tuple[Room, ...]:
        """What the ceilings of tokens and money leave, from the sender's own to that of the day."""
        spending = self.scheduler.services.metering.spending
        rooms = [room for each in account.chain() for room in _left(each.owner, each.budget, each.taken)]
        for each in spending.bounds:
            if each.has_ceiling:
                rooms += _left(each.owner, each.budget, await spending.spent(each))
        return tuple(rooms)

    def _check_bounded(self, made: Forecast, tasks: Sequence[Task], rooms: Sequence[Room]) -> None:
        """Raise `ToolError` unless a ceiling bounds what all of them take."""
        own = (task.budget.tokens is not None or task.budget.money is not None for task in tasks)
        if not rooms and not all(own):
            raise ToolError(UNBOUNDED.format(tokens=made.tokens.high))


def _left(owner: str, budget: Budget, taken: Charge) -> Iterator[Room]:
    if budget.tokens is not None:
        yield Room(owner, "tokens", max(0, budget.tokens - taken.tokens), budget.tokens)
    if budget.money is not None:
        yield Room(owner, "money", max(0.0, budget.money - (taken.money or 0.0)), budget.money)


def _least(rooms: Sequence[Room], measure: Measure) -> float | None:
    """What the narrowest ceiling of a measure leaves; None without one."""
    return min((room.left for room in rooms if room.measure == measure), default=None)
