"""The usage of a session and its day beside their ceilings, while it works."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace

from agent.core.event_data import Measure
from agent.session.spending import request_table
from agent.session.spending.budget import Budget, Charge
from agent.session.spending.metering import Metering
from agent.session.spending.prices import Prices
from agent.session.spending.report import UsageLine, folded
from agent.session.spending.request_table import SENT, RequestSum


@dataclass(frozen=True, slots=True)
class SpendingBound:
    """A ceiling and how much of it is used, in `measure`."""

    setting: str
    measure: Measure
    used: float | None
    """None: a price that is not known is part of it."""
    ceiling: float

    @property
    def share(self) -> float | None:
        """Of the ceiling, 0 to 1; None: unknown."""
        return None if self.used is None else min(self.used / self.ceiling, 1.0)


@dataclass(frozen=True, slots=True)
class SpendingOverview:
    """Lines by who asked, with the agents that were sent as one."""

    today: tuple[UsageLine, ...]
    session: tuple[UsageLine, ...]
    bounds: tuple[SpendingBound, ...]


async def overview(metering: Metering) -> SpendingOverview:
    """What was spent up to now. Raises `StoreError`."""
    spending = metering.spending
    await spending.settled()
    now = spending.now()

    def read(connection: sqlite3.Connection) -> tuple[list[RequestSum], list[RequestSum]]:
        since, until = request_table.today_of(now)
        return (
            request_table.sums(connection, "agent", since=since, until=until),
            request_table.sums(connection, "agent", session=metering.session),
        )

    today, session = await spending.database.read(read)
    bounds = [
        _bounds(each.setting, each.budget, await spending.spent(each))
        for each in spending.bounds
        if each.has_ceiling
    ]
    return SpendingOverview(
        _lines(today, spending.prices),
        _lines(session, spending.prices),
        tuple(bound for each in bounds for bound in each),
    )


def _lines(sums: Iterable[RequestSum], prices: Prices) -> tuple[UsageLine, ...]:
    """The engine's own agent first, then agents that were sent, then the side model."""
    together = (replace(each, key=SENT if each.key.startswith(SENT) else each.key) for each in sums)
    lines = folded(together, prices)
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
