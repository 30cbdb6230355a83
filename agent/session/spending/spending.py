"""The spending of one home: every request written down, whoever makes it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from agent.core.store.connection import Database, Work
from agent.errors import HermesError
from agent.session.spending.budget import Budget, Charge
from agent.session.spending.prices import Prices
from agent.session.spending.shared_budgets import SharedBudget, day_ceilings, session_ceilings, total_ceilings

log = logging.getLogger(__name__)

DAY = 86_400.0


class Spending:
    """Accounts for the requests of one process. Every method raises `StoreError`.

    Where the day, the session (`session`) or the home (`total`) has ceilings, a request is written down
    before it leaves, at the most it can take: then no other process takes the same room, and not even one
    that is killed loses what it spent. Else it is written down when it is over. `now` gives seconds since
    the epoch.
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
        self.today = day_ceilings(today or Budget())
        self.session = session or session_ceilings(Budget(), "")
        self.total = total_ceilings(total or Budget())
        self.bounds = (self.session, self.today, self.total)
        """What each request has to fit."""
        self.firm = any(each.has_ceiling for each in self.bounds)
        self.now = now
        self.process = os.getpid()
        self._writing: set[asyncio.Future[Any]] = set()

    async def of_session(self, session: str) -> Charge:
        """What a session and its agents have spent in all."""
        return await self.spent(session_ceilings(Budget(), session))

    async def spent(self, bound: SharedBudget) -> Charge:
        """What counts for ceilings so far, of all processes."""
        return (await self.database.read(lambda c: bound.spent(c, self.prices, self.now())))[0]

    def later(self, work: Work[Any]) -> None:
        """Write in the background. What cannot be written is told to the log: the request is over anyway."""
        self.keep(asyncio.ensure_future(self._written(work)))

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Wait for a task before the end."""
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _written(self, work: Work[Any]) -> None:
        try:
            await self.database.write(work)
        except HermesError as error:
            log.warning("what a request took could not be written down: %s", error)

    async def settled(self) -> None:
        """Wait until everything is written down."""
        while self._writing:
            await asyncio.gather(*self._writing, return_exceptions=True)
