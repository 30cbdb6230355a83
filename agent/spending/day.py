"""The ceiling of a day: over all sessions and processes that share a home.

Looking what is left and taking it is one transaction, so two processes never
take the same room. What a process that died had taken stays taken.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from dataclasses import replace

from agent.model.catalog import ModelInfo
from agent.model.protocol import Usage
from agent.model.usage import request_cost
from agent.spending import table
from agent.spending.adding import charge_of
from agent.spending.fitting import fitted
from agent.spending.prices import Prices
from agent.spending.table import Amount, Payer
from agent.subagents.budget import Budget, BudgetReachedError, Charge, Measure

OWNER = "this day"
SETTING = "budget.day"

LOOK = 0.5
"""Seconds between two looks whether another process gave room back."""

LEASE = 600.0
"""Seconds for which room that is taken may still be given back; afterwards it counts as spent."""


class Today:
    """The ceilings of the day as this process knows them."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    @property
    def has_ceiling(self) -> bool:
        return self.budget != Budget()

    @property
    def bounds_output(self) -> bool:
        return self.budget.tokens is not None or self.budget.money is not None

    def raise_to(self, measure: Measure, value: float) -> None:
        """Allow so much a day, in this process; others keep to what they were told."""
        self.budget = replace(self.budget, **{measure: value})

    async def given_back(self) -> None:
        """Wait until there may be more room than before."""
        await asyncio.sleep(LOOK)


def take(
    connection: sqlite3.Connection,
    payer: Payer,
    info: ModelInfo,
    today: Today,
    prices: Prices,
    size: tuple[int, int, int],
    now: float,
) -> tuple[int, int]:
    """Write a request down before it leaves: its row, and the output tokens it may have.

    `size` are the most tokens of input, and the tokens of output that are wanted and the least that make
    sense. Raises `BudgetReachedError` unless the least fits.
    """
    most_input, output, least = size
    if today.has_ceiling:
        used, unpriced = spent_today(connection, prices, now)
        output = max(_fitted(info, today.budget, used, most_input, output), least)
        wanted = Charge(1, most_input + output, _cost(info, most_input, output))
        _check(today, used, wanted, payer.model if wanted.money is None else unpriced, connection, now)
    amount = Amount(most_input, output, 0, _cost(info, most_input, output))
    return table.add(connection, payer, amount, "open", now, os.getpid()), output


def spent_today(connection: sqlite3.Connection, prices: Prices, now: float) -> tuple[Charge, str]:
    """What this day has taken so far, open requests at their most, and a model whose price is not known."""
    since, until = table.today_of(now)
    return charge_of(table.sums(connection, None, since=since, until=until), prices)


def _cost(info: ModelInfo, most_input: int, output: int) -> float | None:
    return request_cost(Usage(input=most_input, output=output), info)


def _fitted(info: ModelInfo, budget: Budget, used: Charge, most_input: int, output: int) -> int:
    room = None if budget.tokens is None else max(0, budget.tokens - used.tokens)
    funds = None if budget.money is None else max(0.0, budget.money - (used.money or 0.0))
    return fitted(info, most_input, output, room, funds)


def _check(
    today: Today, used: Charge, wanted: Charge, unpriced: str, connection: sqlite3.Connection, now: float
) -> None:
    """Raise `BudgetReachedError` unless `wanted` fits beside what is used."""
    total = used + wanted
    ceilings: tuple[tuple[Measure, float | None, float | None, float], ...] = (
        ("tokens", today.budget.tokens, total.tokens, used.tokens),
        ("money", today.budget.money, total.money, used.money or 0.0),
    )
    for measure, ceiling, amount, so_far in ceilings:
        if ceiling is None or (amount is not None and amount <= ceiling):
            continue
        raise BudgetReachedError(
            OWNER,
            measure,
            ceiling,
            so_far,
            wanted=0.0 if amount is None else amount - so_far,
            unpriced=amount is None,
            may_pass=amount is not None and table.under_way(connection, now - LEASE),
            setting=f"{SETTING}.{measure}",
            model=unpriced,
            stands=today,
        )
