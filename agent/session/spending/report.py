"""Reports of spending by day, model, project or agent; the total is the same for each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from agent.core.event_data import Measure
from agent.core.store.connection import Database
from agent.session.spending import request_table
from agent.session.spending.budget import Budget, Charge
from agent.session.spending.metering import Metering
from agent.session.spending.request_table import MAIN, SENT, SIDE, Grouping, RequestSum
from agent.session.spending.spending import Prices, cost_of

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class UsageLine:
    """The usage of all requests with the same `key`. Tokens are as providers counted them."""

    key: str
    requests: int = 0
    input: int = 0
    cached: int = 0
    """The part of `input` that was served from the prompt cache."""
    output: int = 0
    cost: float = 0.0
    """US dollars for requests that were counted and have a known price."""
    unpriced: int = 0
    """The number of requests without a known price; they are not in `cost`."""
    uncounted: int = 0
    """The number of requests without a count: their answers were interrupted, or are still running."""
    assumed: int = 0
    """The most tokens that uncounted requests took; they are not in `input` and `output`."""
    assumed_cost: float = 0.0
    """The most that uncounted requests cost in US dollars, as far as priced; not in `cost`."""

    def __add__(self, other: UsageLine) -> UsageLine:
        numbers = [each.name for each in fields(self) if each.name != "key"]
        return UsageLine(self.key, *(getattr(self, name) + getattr(other, name) for name in numbers))

    @property
    def tokens(self) -> int:
        """All tokens. A request that was not counted is included with its maximum."""
        return self.input + self.output + self.assumed

    def to_json(self) -> dict[str, Any]:
        """Return the line as an object; `cost` is None if none of its requests has a known price."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"cost": None if self.unpriced == self.requests > 0 else self.cost}


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Lines of one grouping, and their sum."""

    by: Grouping
    since: str
    """The first day; empty for all days."""
    lines: tuple[UsageLine, ...]
    total: UsageLine


async def report(
    database: Database, prices: Prices, by: Grouping, *, days: int | None, now: float, session: str = ""
) -> UsageReport:
    """Return the usage of the last `days` days including today, or of all if None. Raises `StoreError`."""
    since = "" if days is None else request_table.days_from(request_table.local_day(now), 1 - days)
    sums = await database.read(
        lambda connection: request_table.sums(connection, by, since=since, session=session)
    )
    lines = fold_sums(sums, prices)
    ordered = sorted(lines.values(), key=lambda line: line.key)
    if by != "day":
        ordered.sort(key=lambda line: (line.cost + line.assumed_cost, line.tokens), reverse=True)
    return UsageReport(by, since, tuple(ordered), sum(ordered, UsageLine("total")))


def fold_sums(sums: Iterable[RequestSum], prices: Prices) -> Mapping[str, UsageLine]:
    """Return one usage line for each key, merged from the sums with that key. Pure."""
    lines: dict[str, UsageLine] = {}
    for each in sums:
        lines[each.key] = lines.get(each.key, UsageLine(each.key)) + line_of(each, prices)
    return lines


def line_of(each: RequestSum, prices: Prices) -> UsageLine:
    """Return the usage line of one sum. Pure."""
    cost = cost_of(each, prices)
    unpriced = each.requests if cost is None else 0
    if each.counted:
        counts = (each.input, each.cached, each.output, cost or 0.0, unpriced)
        return UsageLine(each.key, each.requests, *counts)
    return UsageLine(
        each.key,
        each.requests,
        unpriced=unpriced,
        uncounted=each.requests,
        assumed=each.input + each.output,
        assumed_cost=cost or 0.0,
    )


def title(by: Grouping, key: str) -> str:
    """Return the key of a line as readable text. The key may be outside text. Pure."""
    match by:
        case "agent":
            named = {MAIN: "main agent", SIDE: "side model", SENT: "agents without a name"}
            return named.get(key) or f"agent {key.removeprefix(SENT)}"
        case "project":
            return key or "(deleted sessions)"
        case "model":
            return key or "(unknown model)"
        case _:
            return key


@dataclass(frozen=True, slots=True)
class SpendingBound:
    """A ceiling and how much of it is used, in the unit of `measure`."""

    setting: str
    measure: Measure
    used: float | None
    """None if a part of the amount has an unknown price."""
    ceiling: float

    @property
    def share(self) -> float | None:
        """The used share of the ceiling, 0 to 1; None if unknown."""
        return None if self.used is None else min(self.used / self.ceiling, 1.0)


@dataclass(frozen=True, slots=True)
class SpendingOverview:
    """Usage lines of today and of the session, with their ceilings. All subagents share one line."""

    today: tuple[UsageLine, ...]
    session: tuple[UsageLine, ...]
    bounds: tuple[SpendingBound, ...]


async def overview(metering: Metering) -> SpendingOverview:
    """Return the spending so far. Raises `StoreError`."""
    spending = metering.spending
    await spending.wait_for_writes()
    now = spending.now()

    def read(connection: sqlite3.Connection) -> tuple[list[RequestSum], list[RequestSum]]:
        since, until = request_table.today_of(now)
        return (
            request_table.sums(connection, "agent", since=since, until=until),
            request_table.sums(connection, "agent", session=metering.session),
        )

    today, session = await spending.database.read(read)
    bounds = [
        _bounds(each.setting, each.budget, await spending.charge(each))
        for each in spending.bounds
        if each.has_ceiling
    ]
    return SpendingOverview(
        _lines(today, spending.prices),
        _lines(session, spending.prices),
        tuple(bound for each in bounds for bound in each),
    )


def _lines(sums: Iterable[RequestSum], prices: Prices) -> tuple[UsageLine, ...]:
    """Return the lines in order: the session's own agent, all subagents, the side model."""
    together = (replace(each, key=SENT if each.key.startswith(SENT) else each.key) for each in sums)
    lines = fold_sums(together, prices)
    return tuple(lines[key] for key in (request_table.MAIN, SENT, request_table.SIDE) if key in lines)


def _bounds(setting: str, budget: Budget, used: Charge) -> tuple[SpendingBound, ...]:
    given: tuple[tuple[Measure, float | None, float | None], ...] = (
        ("turns", budget.turns, used.turns),
        ("tokens", budget.tokens, used.tokens),
        ("money", budget.money, used.money),
    )
    return tuple(
        SpendingBound(f"{setting}.{measure}", measure, amount, ceiling)
        for measure, ceiling, amount in given
        if ceiling is not None
    )
