"""Where requests of one agent to one model are written down for good."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent.model.catalog import ModelInfo
from agent.model.protocol import Usage
from agent.model.usage import request_cost
from agent.spending import table
from agent.spending.past import UNPAID
from agent.spending.shared import take
from agent.spending.spending import Spending
from agent.spending.table import Amount, Payer


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, from before it leaves until it is over. Tokens are the most it can take."""

    row: int | None
    """Its row, if it was written down before it left."""
    input: int
    output: int
    created: float
    bounded: bool = False
    """Whether its output was made to fit a ceiling, so that it has to be sent with that limit."""


class Account:
    """The account of `payer`; `info` describes the model. Of each entry, end one way exactly once.

    How an entry ended is written in the background, in order; `Spending.aclose` waits for it.
    """

    def __init__(self, spending: Spending, payer: Payer, info: ModelInfo) -> None:
        self._spending = spending
        self._payer = payer
        self._info = info

    async def open(self, most_input: int, output: int, least: int) -> Entry:
        """Set room aside for a request; its output is `output` or, if that does not fit, less.

        Raises `BudgetReachedError` when not even `least` tokens of output fit the ceilings of session and
        day, and `StoreError`; then nothing is set aside.
        """
        spending = self._spending
        if not spending.firm:
            return Entry(None, most_input, output, spending.now())
        opening = asyncio.create_task(self._open(most_input, output, least))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._abandoned)
            spending.keep(opening)
            raise

    async def _open(self, most_input: int, output: int, least: int) -> Entry:
        spending = self._spending
        await spending.catch_up_today()
        created = spending.now()
        row, fitting = await spending.database.write(
            lambda connection: take(
                connection,
                self._payer,
                self._info,
                spending.bounds,
                spending.prices,
                (most_input, output, least),
                created,
            )
        )
        bounded = any(each.bounds_output for each in spending.bounds)
        return Entry(row, most_input, fitting, created, bounded=bounded)

    def _abandoned(self, opening: asyncio.Task[Entry]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.cancel(opening.result())

    def close(self, entry: Entry, usage: Usage) -> None:
        """The provider counted what it took."""
        taken = Amount(
            max(usage.input or 0, 0),
            max(usage.output or 0, 0),
            max(usage.cached or 0, 0),
            request_cost(usage, self._info),
        )
        self._write(entry, taken, "counted")

    def lose(self, entry: Entry) -> None:
        """Nobody counted what it took: it stands for the most it could."""
        self._write(entry, None, "assumed")

    def cancel(self, entry: Entry) -> None:
        """It was never worked on."""
        if (row := entry.row) is not None:
            self._spending.later(lambda connection: table.drop(connection, row))

    def _write(self, entry: Entry, taken: Amount | None, state: table.State) -> None:
        if (row := entry.row) is not None:
            self._spending.later(lambda connection: table.close(connection, row, taken))
            return
        amount = taken or most_of(self._info, entry.input, entry.output)
        process = self._spending.process
        self._spending.later(
            lambda connection: table.add(connection, self._payer, amount, state, entry.created, process)
        )


def account_of(spending: Spending, payer: Payer, info: ModelInfo) -> Account | None:
    """Where requests of a payer are written down; None where nothing is to be paid."""
    return None if payer.model == UNPAID else Account(spending, payer, info)


def most_of(info: ModelInfo, most_input: int, output: int) -> Amount:
    """What a request can take at most."""
    cost = request_cost(Usage(input=most_input, output=output), info)
    return Amount(most_input, output, 0, cost)
