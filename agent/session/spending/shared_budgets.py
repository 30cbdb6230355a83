"""Ceilings over all processes that share a home: those of a day, of one session, of everything.

Looking what is left and taking it is one transaction, so two processes never take the
same room. What a process that died had taken stays taken.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from agent.core.event_data import Measure
from agent.model.catalog import ModelInfo
from agent.model.usage import most_cost
from agent.session.spending import request_table
from agent.session.spending.answer_limit import fitted
from agent.session.spending.budget import Budget, BudgetReachedError, Charge
from agent.session.spending.charges import charge_of
from agent.session.spending.prices import Prices
from agent.session.spending.request_table import Payer, RequestAmount

DAY_SETTING = "budget.day"

LOOK = 0.5
"""Seconds between two looks whether somebody gave room back."""

LEASE = 600.0
"""Seconds for which room that is taken may still be given back; afterwards it counts as spent."""


class SharedBudget:
    """The ceilings of a day, of one `session` or of everything (`ever`), as this process knows them.

    `owner` is whose they are, in words, `setting` the section of the settings that holds them.
    """

    def __init__(
        self, owner: str, setting: str, budget: Budget, session: str = "", ever: bool = False
    ) -> None:
        self.owner = owner
        self.setting = setting
        self.budget = budget
        self.session = session
        """Empty: what all sessions ask for on one day counts."""
        self.ever = ever
        """Whether that of all days counts."""

    @property
    def has_ceiling(self) -> bool:
        return self.budget != Budget()

    @property
    def bounds_output(self) -> bool:
        return self.budget.tokens is not None or self.budget.money is not None

    def raise_to(self, measure: Measure, value: float) -> None:
        """Allow so much, in this process; others keep to what they were told."""
        self.budget = replace(self.budget, **{measure: value})

    async def given_back(self) -> None:
        """Wait until there may be more room than before."""
        await asyncio.sleep(LOOK)

    def spent(self, connection: sqlite3.Connection, prices: Prices, now: float) -> tuple[Charge, str]:
        """What was taken so far, open requests at their most, and a model whose price is not known."""
        if self.session:
            return charge_of(request_table.sums(connection, None, session=self.session), prices)
        since, until = ("", "") if self.ever else request_table.today_of(now)
        return charge_of(request_table.sums(connection, None, since=since, until=until), prices)

    def check(
        self, used: Charge, wanted: Charge, unpriced: str, connection: sqlite3.Connection, now: float
    ) -> None:
        """Raise `BudgetReachedError` unless `wanted` fits beside what is used."""
        total = used + wanted
        ceilings: tuple[tuple[Measure, float | None, float | None, float], ...] = (
            ("turns", self.budget.turns, total.turns, used.turns),
            ("tokens", self.budget.tokens, total.tokens, used.tokens),
            ("money", self.budget.money, total.money, used.money or 0.0),
        )
        for measure, ceiling, amount, so_far in ceilings:
            if ceiling is None or (amount is not None and amount <= ceiling):
                continue
            raise BudgetReachedError(
                self.owner,
                measure,
                ceiling,
                so_far,
                wanted=0.0 if amount is None else amount - so_far,
                unpriced=amount is None,
                may_pass=amount is not None
                and request_table.under_way(connection, now - LEASE, self.session),
                setting=f"{self.setting}.{measure}",
                model=unpriced,
                stands=self,
            )


def day_ceilings(budget: Budget) -> SharedBudget:
    """The ceilings of each day."""
    return SharedBudget("this day", DAY_SETTING, budget)


def total_ceilings(budget: Budget) -> SharedBudget:
    """The ceilings of all that a home ever asks for."""
    return SharedBudget("this home", "budget.total", budget, ever=True)


def session_ceilings(budget: Budget, session: str) -> SharedBudget:
    """The ceilings of a session with all it sends, by its id."""
    return SharedBudget("this session", "budget.session", budget, session)


def take(
    connection: sqlite3.Connection,
    payer: Payer,
    info: ModelInfo,
    bounds: Sequence[SharedBudget],
    prices: Prices,
    size: tuple[int, int, int],
    now: float,
) -> tuple[int, int]:
    """Write a request down before it leaves: its row, and the output tokens it may have.

    `size` are the most tokens of input, and the tokens of output that are wanted and the least that make
    sense. Raises `BudgetReachedError` unless the least fits.
    """
    most_input, output, least = size
    used = [(each, *each.spent(connection, prices, now)) for each in bounds if each.has_ceiling]
    for each, so_far, _ in used:
        output = max(_fitted(info, each.budget, so_far, most_input, output), least)
    wanted = Charge(1, most_input + output, _cost(info, most_input, output))
    for each, so_far, unpriced in used:
        each.check(so_far, wanted, payer.model if wanted.money is None else unpriced, connection, now)
    amount = RequestAmount(most_input, output, 0, wanted.money)
    return request_table.add(connection, payer, amount, "open", now, os.getpid()), output


def _cost(info: ModelInfo, most_input: int, output: int) -> float | None:
    return most_cost(most_input, output, info)


def _fitted(info: ModelInfo, budget: Budget, used: Charge, most_input: int, output: int) -> int:
    room = None if budget.tokens is None else max(0, budget.tokens - used.tokens)
    funds = None if budget.money is None else max(0.0, budget.money - (used.money or 0.0))
    return fitted(info, most_input, output, room, funds)
