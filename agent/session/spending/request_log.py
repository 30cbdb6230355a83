"""The log of the requests of one agent to one model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent.core.event_data import Usage
from agent.model.catalog import ModelInfo
from agent.model.usage import most_cost, request_cost
from agent.session.spending import request_table
from agent.session.spending.request_table import Payer, RequestAmount
from agent.session.spending.spending import Spending, take

_UNPAID = "demo"
"""The scripted demo model, which sends no requests and costs nothing."""


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """One request, from before it is sent until it has ended. Its tokens are the maximum that it can use."""

    row: int | None
    """The id of the request's row, if it was recorded before it was sent."""
    input: int
    output: int
    created: float
    bounded: bool = False
    """True if its output was limited to fit a ceiling, so that it must be sent with that limit."""


class RequestLog:
    """The log of the requests of `payer`; `info` describes the model.

    Each entry must be ended exactly once, by `close`, `lose` or `cancel`. Entries are written in the
    background, in order; `Spending.aclose` waits for this.
    """

    def __init__(self, spending: Spending, payer: Payer, info: ModelInfo) -> None:
        self._spending = spending
        self._payer = payer
        self.info = info

    async def open(self, most_input: int, output: int, least: int) -> RequestEntry:
        """Reserve room for a request with at most `output` output tokens; return its entry with the number
        that fits.

        Raises `BudgetReachedError` when not even `least` tokens of output fit the ceilings of session and
        day, and `StoreError`; then nothing is reserved.
        """
        spending = self._spending
        if not spending.firm:
            return RequestEntry(None, most_input, output, spending.now())
        opening = asyncio.create_task(self._open(most_input, output, least))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._cancel_opened)
            spending.keep(opening)
            raise

    async def _open(self, most_input: int, output: int, least: int) -> RequestEntry:
        spending = self._spending
        created = spending.now()
        row, fitting = await spending.database.write(
            lambda connection: take(
                connection,
                self._payer,
                self.info,
                spending.bounds,
                spending.prices,
                (most_input, output, least),
                created,
            )
        )
        bounded = any(each.bounds_output for each in spending.bounds)
        return RequestEntry(row, most_input, fitting, created, bounded=bounded)

    def _cancel_opened(self, opening: asyncio.Task[RequestEntry]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.cancel(opening.result())

    def close(self, entry: RequestEntry, usage: Usage) -> None:
        """Record the usage that the provider counted."""
        taken = RequestAmount(
            max(usage.input or 0, 0),
            max(usage.output or 0, 0),
            max(usage.cached or 0, 0),
            request_cost(usage, self.info),
        )
        self._write(entry, taken, "counted")

    def lose(self, entry: RequestEntry) -> None:
        """Record that the usage of a request is unknown, so that its maximum counts."""
        self._write(entry, None, "assumed")

    def cancel(self, entry: RequestEntry) -> None:
        """Remove the entry of a request that was never processed."""
        if (row := entry.row) is not None:
            self._spending.later(lambda connection: request_table.drop(connection, row))

    def _write(self, entry: RequestEntry, taken: RequestAmount | None, state: request_table.State) -> None:
        if (row := entry.row) is not None:
            self._spending.later(lambda connection: request_table.close(connection, row, taken))
            return
        amount = taken or most_of(self.info, entry.input, entry.output)
        process = self._spending.process
        self._spending.later(
            lambda connection: request_table.add(
                connection, self._payer, amount, state, entry.created, process
            )
        )


class NoRequestLog(RequestLog):
    """A log for requests without a payer; it records nothing."""

    def __init__(self, info: ModelInfo) -> None:
        self.info = info

    async def open(self, most_input: int, output: int, least: int) -> RequestEntry:
        return RequestEntry(None, most_input, output, 0.0)

    def close(self, entry: RequestEntry, usage: Usage) -> None:
        pass

    def lose(self, entry: RequestEntry) -> None:
        pass

    def cancel(self, entry: RequestEntry) -> None:
        pass


def request_log_of(spending: Spending, payer: Payer, info: ModelInfo) -> RequestLog:
    """Return the request log of a payer. Requests to the demo model are not recorded."""
    return NoRequestLog(info) if payer.model == _UNPAID else RequestLog(spending, payer, info)


def most_of(info: ModelInfo, most_input: int, output: int) -> RequestAmount:
    """Return the largest amount that a request can use."""
    cost = most_cost(most_input, output, info)
    return RequestAmount(most_input, output, 0, cost)
