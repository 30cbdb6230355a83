"""Forecasts of the usage of agents, and the question to the user about them."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agent.core.event_data import Forecast, ForecastSpan, Measure, Usage
from agent.core.store.nodes import Node
from agent.errors import StoreError
from agent.events import Room
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.model.usage import request_cost
from agent.session.spending.budget import Budget, BudgetAccount, Charge
from agent.session.spending.decisions import Decisions
from agent.session.spending.request_table import tokens_of_ended
from agent.session.subagents.agent_table import ENDED
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import Task
from agent.session.subagents.scheduler import Scheduler
from agent.session.subagents.subagent import agent_tools
from tools.results import ToolError
from tools.text.safe_text import clean

FEW = 5
"""The fewest ended agents whose usage a forecast is based on."""

QUICK, LONG = 3, 20
"""Numbers of requests of an agent that finds its answer at once, and of one that has to search."""

GROWTH = 2_000
"""Tokens by which a conversation grows between two requests: an answer and the results of its calls."""

REPLY = 400
"""The part of these tokens that the model writes itself."""

LONG_REPLY = 6_000
"""Tokens of a long answer to a question, written by an agent or read from another agent."""

CACHED = 0.9
"""The share of resent tokens that providers read from their cache in the best case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """An agent that is about to be started."""

    goal: str
    model: str
    info: ModelInfo = UNKNOWN
    start: int
    """Tokens of its first request: tools, system prompt and task."""
    budget: Budget = Budget()  # noqa: RUF009 - frozen
    """The agent's own ceilings."""
    only_answers: bool = False
    """True if it answers a question with a single request."""
    reads: int = 0
    """The number of other agents' answers that it reads in that request."""


def forecast(planned: Sequence[Planned], past: Sequence[int] = (), left: int | None = None) -> Forecast:
    """Return the forecast. `past` holds tokens that ended agents used; `left` limits the total tokens."""
    tokens, money = ForecastSpan(0, 0), ForecastSpan(0.0, 0.0)
    priced, single = True, all(each.only_answers for each in planned)
    for each in planned:
        span = _tokens(each, past)
        tokens += span
        cost = _money(each, span)
        priced = priced and cost is not None
        money += cost or ForecastSpan(0.0, 0.0)
    bounded = ForecastSpan(
        *(min(end, left) if left is not None else end for end in (tokens.low, tokens.high))
    )
    if tokens.high > 0 and bounded != tokens:
        # A token may cost less in larger amounts, so the ends may be swapped.
        money = ForecastSpan(*sorted(_share(*ends) for ends in _ends(money, bounded, tokens)))
    return Forecast(
        models=tuple(Counter(each.model for each in planned).items()),
        goals=tuple(each.goal for each in planned),
        tokens=bounded,
        money=money if priced else None,
        left=left,
        from_past=len(past) if len(past) >= FEW and not single else 0,
        single=single,
    )


def _ends(
    money: ForecastSpan, bounded: ForecastSpan, tokens: ForecastSpan
) -> Iterable[tuple[float, float, float]]:
    return ((money.low, bounded.low, tokens.low), (money.high, bounded.high, tokens.high))


def _share(money: float, bounded: float, tokens: float) -> float:
    return money * bounded / tokens if tokens else 0.0


def _tokens(each: Planned, past: Sequence[int]) -> ForecastSpan:
    if each.only_answers:
        low, high = (sum(_single(each, reply)) for reply in (REPLY, LONG_REPLY))
    elif len(past) >= FEW:
        ordered = sorted(past)
        low, high = ordered[len(ordered) // 4], ordered[(len(ordered) * 9) // 10]
        # Even without room, its first request is sent and answered.
        low = max(low, each.start + REPLY)
        high = max(high, low)
    else:
        low, high = (_token_estimate(each.start, requests) for requests in (QUICK, LONG))
    ceilings = [each.budget.tokens]
    if each.budget.turns is not None and not each.only_answers:
        ceilings.append(_token_estimate(each.start, each.budget.turns))
    for ceiling in ceilings:
        if ceiling is not None:
            low, high = min(low, ceiling), min(high, ceiling)
    return ForecastSpan(low, high)


def _single(each: Planned, reply: int) -> tuple[int, int]:
    """Return the input and output tokens of one request if every answer has `reply` tokens."""
    return each.start + each.reads * reply, reply


def _token_estimate(start: int, requests: int) -> int:
    """Return the total tokens of `requests` requests, the first of which has `start` tokens."""
    return requests * (start + REPLY) + GROWTH * (requests * (requests - 1) // 2)


def _money(each: Planned, tokens: ForecastSpan) -> ForecastSpan | None:
    """Return the cost in US dollars, from the best use of the cache to none; None if a price is unknown."""
    if each.only_answers:
        low, high = (
            request_cost(Usage(input=read, output=written, cached=0), each.info)
            for read, written in (_single(each, REPLY), _single(each, LONG_REPLY))
        )
    else:
        low = _cost(each.info, tokens.low, CACHED)
        high = _cost(each.info, tokens.high, 0.0)
    if low is None or high is None:
        return None
    ceiling = each.budget.money
    low, high = min(low, high), max(low, high)
    return ForecastSpan(low, high) if ceiling is None else ForecastSpan(min(low, ceiling), min(high, ceiling))


def _cost(info: ModelInfo, tokens: float, cached: float) -> float | None:
    """Return the cost, in US dollars, of an agent that uses `tokens` tokens in total; None if unknown."""
    written = min(tokens, max(REPLY, tokens * REPLY / (GROWTH * 3)))
    read = int(tokens - written)
    usage = Usage(input=read, output=int(written), cached=int(read * cached))
    cost = request_cost(usage, info)
    if cost is None and cached:
        # Without a price for cached tokens, they cost as much as others.
        cost = request_cost(Usage(input=read, output=int(written), cached=0), info)
    return cost


log = logging.getLogger(__name__)

UNBOUNDED = (
    "Nobody is there to agree to agents that may take {tokens:,.0f} tokens, and no ceiling bounds them. "
    "Give each a budget, set subagents.tokens, or set subagents.forecast_tokens to null."
)
DECLINED = "The user does not want these agents to be sent."
WITHDRAWN = "The question whether these agents are sent was withdrawn before it was answered; none was sent."


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The parts of an agent's first request other than tools and task."""

    tokens: Callable[[int], int]
    """A function from a number of bytes to tokens, learned from what providers counted."""
    system: Callable[[], Node | None]
    """Returns the system prompt of the session, which agents' prompts resemble; None if there is none yet."""


@dataclass(slots=True)
class Forecaster:
    """Asks the user before agents are started, if the high estimate exceeds `threshold` tokens."""

    scheduler: Scheduler
    threshold: int | None
    """A number of tokens; 0 to ask always, None never."""
    beginning: FirstRequest
    decisions: Decisions
    """The record of whether the user still wants to be asked in this session."""

    async def agree(self, tasks: Sequence[Task], agent: str, reads: Sequence[int]) -> bool:
        """Wait until `agent` may start agents for these tasks; return True if the user was asked and
        approved.

        `reads` are the numbers of other agents' answers that each of them reads. Raises `ToolError` if the
        user refuses, or if the session is unattended and no ceiling limits the agents.
        """
        if self.threshold is None or self.decisions.unasked:
            return False
        sender = self.scheduler.sender(agent)
        rooms = await self._rooms(self.scheduler.account if sender is None else sender.account)
        made = await self._forecast(tasks, reads, sender, rooms)
        # A single agent is not worth a question as long as the forecast is only a guess.
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
        raise ToolError(sentence, outcome=decision.choice, status="blocked")

    async def _forecast(
        self, tasks: Sequence[Task], reads: Sequence[int], sender: LiveAgent | None, rooms: Sequence[Room]
    ) -> Forecast:
        """Return the forecast for all the agents, limited to what the ceilings leave."""
        spending = self.scheduler.services.metering.spending
        try:
            past = await spending.database.read(lambda connection: tokens_of_ended(connection, ENDED))
        except StoreError as error:
            log.warning("what ended agents took could not be read: %s", error)
            past = []
        planned = [self._plan(task, count, sender) for task, count in zip(tasks, reads, strict=True)]
        tokens = _least(rooms, "tokens")
        made = forecast(planned, past, None if tokens is None else int(tokens))
        funds = _least(rooms, "money")
        if made.money is None or funds is None:
            return made
        return replace(made, money=ForecastSpan(min(made.money.low, funds), min(made.money.high, funds)))

    def _plan(self, task: Task, reads: int, sender: LiveAgent | None) -> Planned:
        services, limits = self.scheduler.services, self.scheduler.limits
        model = services.models.label(task.model)
        depth = 1 if sender is None else sender.depth + 1
        tools = agent_tools(services, task, depth, depth >= limits.depth).direct
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
        """Return what token and money ceilings leave, from the starting agent's to those of the day."""
        spending = self.scheduler.services.metering.spending
        rooms = [
            room for each in account.chain() for room in _remaining_rooms(each.owner, each.budget, each.total)
        ]
        for each in spending.bounds:
            if each.has_ceiling:
                rooms += _remaining_rooms(each.owner, each.budget, await spending.charge(each))
        return tuple(rooms)

    def _check_bounded(self, made: Forecast, tasks: Sequence[Task], rooms: Sequence[Room]) -> None:
        """Raise `ToolError` unless ceilings limit the total usage."""
        own = (task.budget.tokens is not None or task.budget.money is not None for task in tasks)
        if not rooms and not all(own):
            raise ToolError(UNBOUNDED.format(tokens=made.tokens.high))


def _remaining_rooms(owner: str, budget: Budget, taken: Charge) -> Iterator[Room]:
    if budget.tokens is not None:
        yield Room(owner, "tokens", max(0, budget.tokens - taken.tokens), budget.tokens)
    if budget.money is not None:
        yield Room(owner, "money", max(0.0, budget.money - (taken.money or 0.0)), budget.money)


def _least(rooms: Sequence[Room], measure: Measure) -> float | None:
    """Return the smallest amount that ceilings of a measure leave; None without a ceiling."""
    return min((room.left for room in rooms if room.measure == measure), default=None)
