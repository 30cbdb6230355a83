"""Forecast of what sending agents will use: a low and a high end, never a promise.

An agent sends its whole conversation with each request, so what it takes grows
faster than the number of its requests. What ended agents took tells more than
any model of that, so as soon as there are a few of them, they are asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.core.event_data import Forecast, ForecastSpan, Usage
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.model.usage import request_cost
from agent.session.spending.budget import Budget

FEW = 5
"""Ended agents from which on the past is believed."""

QUICK, LONG = 3, 20
"""Requests of an agent that finds its answer at once, and of one that has to search."""

GROWTH = 2_000
"""Tokens by which a conversation grows between two requests: a reply and the results of its calls."""

REPLY = 400
"""Tokens of that which the model wrote itself."""

LONG_REPLY = 6_000
"""Tokens of a long answer to a question, as much of one as others read."""

CACHED = 0.9
"""Share of what is sent again that providers read from their cache, where it goes well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """An agent that is to be sent."""

    goal: str
    model: str
    info: ModelInfo = UNKNOWN
    start: int
    """Tokens of its first request: tools, system prompt and task."""
    budget: Budget = Budget()  # noqa: RUF009 - frozen
    """Its own ceilings."""
    only_answers: bool = False
    """Whether it makes one request: it answers a question."""
    reads: int = 0
    """Answers of others that it reads besides, in that request."""


def forecast(planned: Sequence[Planned], past: Sequence[int] = (), left: int | None = None) -> Forecast:
    """What `planned` are going to take. `past` are the tokens that ended agents took, in any order."""
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
        # A token may cost less where there are more of them, so the ends may change places.
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
        # Whatever others took, its own first request is sent and answered.
        low = max(low, each.start + REPLY)
        high = max(high, low)
    else:
        low, high = (_taken(each.start, requests) for requests in (QUICK, LONG))
    ceilings = [each.budget.tokens]
    if each.budget.turns is not None and not each.only_answers:
        ceilings.append(_taken(each.start, each.budget.turns))
    for ceiling in ceilings:
        if ceiling is not None:
            low, high = min(low, ceiling), min(high, ceiling)
    return ForecastSpan(low, high)


def _single(each: Planned, reply: int) -> tuple[int, int]:
    """Tokens in and out of one request, if every answer has `reply` tokens."""
    return each.start + each.reads * reply, reply


def _taken(start: int, requests: int) -> int:
    """Tokens that so many requests take together."""
    return requests * (start + REPLY) + GROWTH * (requests * (requests - 1) // 2)


def _money(each: Planned, tokens: ForecastSpan) -> ForecastSpan | None:
    """US dollars of so many tokens: with the cache at its best, and without any."""
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
    """US dollars of the requests of an agent that takes so many tokens in all."""
    written = min(tokens, max(REPLY, tokens * REPLY / (GROWTH * 3)))
    read = int(tokens - written)
    usage = Usage(input=read, output=int(written), cached=int(read * cached))
    cost = request_cost(usage, info)
    if cost is None and cached:
        # Without a price for what is cached, it costs what the rest costs.
        cost = request_cost(Usage(input=read, output=int(written), cached=0), info)
    return cost
