"""What is spent in one home: every request written down, whoever makes it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from agent.errors import HermesError
from agent.model.catalog import ModelInfo
from agent.spending import past, table
from agent.spending.account import Account
from agent.spending.adding import charge_of
from agent.spending.day import Today, spent_today
from agent.spending.prices import Prices
from agent.spending.table import Payer, Sum
from agent.store.connection import Database, Work
from agent.subagents.budget import Budget, Charge

log = logging.getLogger(__name__)

DAY = 86_400.0


class Spending:
    """Accounts for the requests of one process. Every method raises `StoreError`.

    With `firm`, a request is written down before it leaves, at the most it can take, so that not even a
    process that is killed loses what it spent; without, when it is over. A ceiling of the day (`today`)
    needs it. `now` gives seconds since the epoch.
    """

    def __init__(
        self,
        database: Database,
        prices: Prices,
        today: Budget | None = None,
        *,
        firm: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.prices = prices
        self.today = Today(today or Budget())
        self.firm = firm or self.today.has_ceiling
        self.now = now
        self.process = os.getpid()
        self._caught_up = not self.today.has_ceiling
        self._writing: set[asyncio.Future[Any]] = set()

    def account(self, payer: Payer, info: ModelInfo) -> Account | None:
        """Where requests of a payer are written down; None where nothing is to be paid."""
        return None if payer.model == past.UNPAID else Account(self, payer, info)

    async def of_session(self, session: str) -> Charge:
        """What a session and its agents have spent in all."""

        def read(connection: sqlite3.Connection) -> tuple[list[Sum], list[past.Found]]:
            return table.sums(connection, None, session=session), past.owed_of(connection, session)

        sums, owed = await self.database.read(read)
        owing = (
            Sum("", payer.model, state == "counted", 1, each.input, each.cached, each.output, None)
            for payer, each, state, _ in owed
        )
        return charge_of((*sums, *owing), self.prices)[0]

    async def of_today(self) -> Charge:
        """What all sessions and processes have spent on this day."""
        return (await self.database.read(lambda c: spent_today(c, self.prices, self.now())))[0]

    async def catch_up_today(self) -> None:
        """See that requests of this day that older versions kept elsewhere are counted."""
        if not self._caught_up:
            await past.catch_up(self.database, self.now() - 2 * DAY)
            self._caught_up = True

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
