"""The spending in one Hermes home folder: a record of every request by any process."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from agent.core.event_data import Measure, Usage
from agent.core.store.connection import Database, Work
from agent.errors import HermesError
from agent.model.addresses import is_loopback
from agent.model.catalog import FREE, UNKNOWN, ModelInfo, lookup
from agent.model.providers import address_of, seller
from agent.model.usage import most_cost, request_cost
from agent.session.spending import request_table
from agent.session.spending.answer_limit import fit_output
from agent.session.spending.budget import Budget, BudgetReachedError, Charge
from agent.session.spending.request_table import Payer, RequestAmount, RequestSum

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


Prices = Callable[[str], ModelInfo]

OWN = frozenset({"local", "demo"})
"""Models that run inside Hermes and cost nothing."""


def prices_of(settings: Settings, environ: Mapping[str, str]) -> Prices:
    """Return a function that gives the info of a model by its label, such as `openrouter/z-ai/glm-5`. Needs
    no key.
    """

    @cache
    def info(label: str) -> ModelInfo:
        if label in OWN:
            return FREE
        provider, _, model = label.partition("/")
        own = settings.providers.get(provider)
        address = address_of(settings, environ, provider)
        # The options of a local server determine what it really offers.
        local = not address or is_loopback(address)
        known = None if local else lookup(model, seller(address))
        return (known or UNKNOWN).overridden(own.models.get(model) if own else None)

    return info


def cost_of(each: RequestSum, prices: Prices) -> float | None:
    """Return the cost of requests in US dollars; None if a price is unknown.

    Requests that had no known price when they were sent get today's price.
    """
    if each.cost is not None:
        return each.cost
    return request_cost(Usage(each.input, each.output, each.cached), prices(each.model))


def charge_of(sums: Iterable[RequestSum], prices: Prices) -> tuple[Charge, str]:
    """Return the total of the sums, and the label of a model without a known price.

    The label is empty if all prices are known; otherwise the money of the total is None.
    """
    total, unpriced = Charge(), ""
    for each in sums:
        cost = cost_of(each, prices)
        unpriced = unpriced if cost is not None else each.model
        total += Charge(each.requests, each.input + each.output, cost)
    return total, unpriced


DAY_SETTING = "budget.day"

LOOK = 0.5
"""Seconds between two checks for room that other requests released."""

LEASE = 600.0
"""Seconds during which an open request may still release room; afterwards the room counts as spent."""


class SharedBudget:
    """The ceilings of a day, of one `session` or of all time (`ever`), as this process knows them.

    `owner` names the owner in words, `setting` is the settings section that holds the ceilings.
    """

    def __init__(
        self, owner: str, setting: str, budget: Budget, session: str = "", ever: bool = False
    ) -> None:
        self.owner = owner
        self.setting = setting
        self.budget = budget
        self.session = session
        """The session to which it applies; empty if the requests of all sessions count."""
        self.ever = ever
        """True if it covers all days."""

    @property
    def has_ceiling(self) -> bool:
        return self.budget != Budget()

    @property
    def bounds_output(self) -> bool:
        return self.budget.tokens is not None or self.budget.money is not None

    def raise_to(self, measure: Measure, value: float) -> None:
        """Set a ceiling in this process only."""
        self.budget = replace(self.budget, **{measure: value})

    async def given_back(self) -> None:
        """Wait for half a second, after which more room may be free."""
        await asyncio.sleep(LOOK)

    def charge(self, connection: sqlite3.Connection, prices: Prices, now: float) -> tuple[Charge, str]:
        """Return the amount used, and the label of a model without a known price, or an empty text.

        Open requests count with their maximum.
        """
        if self.session:
            return charge_of(request_table.sums(connection, None, session=self.session), prices)
        since, until = ("", "") if self.ever else request_table.today_of(now)
        return charge_of(request_table.sums(connection, None, since=since, until=until), prices)

    def check(
        self, used: Charge, wanted: Charge, unpriced: str, connection: sqlite3.Connection, now: float
    ) -> None:
        """Raise `BudgetReachedError` unless `wanted` fits in addition to `used`."""
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
                self,
                measure,
                ceiling,
                so_far,
                wanted=0.0 if amount is None else amount - so_far,
                unpriced=unpriced if amount is None else None,
                may_pass=amount is not None
                and request_table.under_way(connection, now - LEASE, self.session),
                setting=f"{self.setting}.{measure}",
            )


def session_ceilings(budget: Budget, session: str) -> SharedBudget:
    """Return the ceilings of a session, given by its id, and its agents."""
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
    """Record a request before it is sent; return the id of its row and the output tokens that it may have.

    `size` holds the maximum input tokens, the wanted output tokens, and the fewest useful output tokens.
    Raises `BudgetReachedError` unless those fit.
    """
    most_input, output, least = size
    used = [(each, *each.charge(connection, prices, now)) for each in bounds if each.has_ceiling]
    for each, so_far, _ in used:
        output = max(_fit_budget(info, each.budget, so_far, most_input, output), least)
    wanted = Charge(1, most_input + output, most_cost(most_input, output, info))
    for each, so_far, unpriced in used:
        each.check(so_far, wanted, payer.model if wanted.money is None else unpriced, connection, now)
    amount = RequestAmount(most_input, output, 0, wanted.money)
    return request_table.add(connection, payer, amount, "open", now, os.getpid()), output


def _fit_budget(info: ModelInfo, budget: Budget, used: Charge, most_input: int, output: int) -> int:
    room = None if budget.tokens is None else max(0, budget.tokens - used.tokens)
    funds = None if budget.money is None else max(0.0, budget.money - (used.money or 0.0))
    return fit_output(info, most_input, output, room, funds)


log = logging.getLogger(__name__)

DAY = 86_400.0
ALONG = 0.05
"""Seconds that the record of a request waits for another commit that can include it."""


class Spending:
    """Accounting for the requests of one process.

    If the day, the session (`session`) or the home folder (`total`) has ceilings, a request is recorded with
    its maximum before it is sent. So no other process uses the same room, and spending is not lost if the
    process is killed. Otherwise it is recorded when it has ended. `now` returns seconds since the epoch.
    Reading raises `StoreError`.
    """

    def __init__(
        self,
        database: Database,
        prices: Prices,
        today: Budget | None = None,
        session: SharedBudget | None = None,
        total: Budget | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.prices = prices
        self.today = SharedBudget("this day", DAY_SETTING, today or Budget())
        self.session = session or session_ceilings(Budget(), "")
        self.total = SharedBudget("this home", "budget.total", total or Budget(), ever=True)
        self.bounds = (self.session, self.today, self.total)
        """The ceilings that each request must fit."""
        self.firm = any(each.has_ceiling for each in self.bounds)
        self.now = now
        self.process = os.getpid()
        self._writing: set[asyncio.Future[Any]] = set()
        self._flushes = False
        """True if a task will write the pending records, even without another commit."""
        self._hurry = asyncio.Event()
        """Set while a caller waits for the pending records."""

    async def of_session(self, session: str) -> Charge:
        """Return the total spending of a session and its agents. Raises `StoreError`."""
        return await self.charge(session_ceilings(Budget(), session))

    async def charge(self, bound: SharedBudget) -> Charge:
        """Return the amount that counts for the ceilings, summed over all processes. Raises `StoreError`."""
        await self.wait_for_writes()
        return (await self.database.read(lambda c: bound.charge(c, self.prices, self.now())))[0]

    def later(self, work: Work[Any]) -> None:
        """Write with the next commit, or on its own in a moment if there is none: usually an answer is stored
        soon.

        A failure is only logged, because the request has already ended.
        """
        try:
            self.database.write_along(work)
        except HermesError as error:
            log.warning("what a request took could not be written down: %s", error)
            return
        if not self._flushes:
            self._flushes = True
            self.keep(asyncio.ensure_future(self._flush_soon()))

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Register a task so that `wait_for_writes` waits for it."""
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _flush_soon(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(ALONG):
                await self._hurry.wait()
        self._flushes = False
        try:
            await self.database.flush()
        except HermesError as error:
            log.warning("what a request took could not be written down: %s", error)

    async def wait_for_writes(self) -> None:
        """Wait until all records of requests are written, or their failure is logged."""
        self._hurry.set()
        try:
            while writing := tuple(self._writing):
                await asyncio.gather(*writing, return_exceptions=True)
                # `gather` does not let the loop turn if all are done, so they cannot leave by themselves.
                self._writing.difference_update(writing)
        finally:
            self._hurry.clear()
