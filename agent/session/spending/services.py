"""The cost of services that are not asked for tokens, counted before they are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent.core.event_data import Usage
from agent.model.catalog import ModelInfo
from agent.session.spending.budget import BudgetAccount, BudgetReachedError, Charge
from agent.session.spending.request_log import RequestLog
from tools.results import ToolError


class ServiceAccount:
    """Pays for services from the account of a session. `log_of` gives the log of a service and its price."""

    def __init__(self, account: BudgetAccount, log_of: Callable[[str, ModelInfo], RequestLog]) -> None:
        self._account = account
        self._log_of = log_of

    @asynccontextmanager
    async def paying(self, name: str, price: float | None) -> AsyncIterator[None]:
        """Around a request to a service; what is refused costs nothing. Raises `ToolError`."""
        # The log keeps tokens and prices of tokens: one token, which has the price.
        known = None if price is None else price * 1_000_000
        log = self._log_of(name, ModelInfo(input_price=known, output_price=None if price is None else 0.0))
        charge = Charge(1, 1, price)
        try:
            reservation = self._account.reserve(charge)
        except BudgetReachedError as error:
            raise ToolError(f"This is not paid for: {error}") from error
        try:
            entry = await log.open(1, 0, 0)
        except BudgetReachedError as error:
            reservation.settle(Charge())
            raise ToolError(f"This is not paid for: {error}") from error
        except BaseException:
            reservation.settle(Charge())
            raise
        try:
            yield
        except ToolError as error:
            refused = str(error.extra.get("status_code", "")).startswith("4")
            reservation.settle(Charge() if refused else charge)
            log.cancel(entry) if refused else log.lose(entry)
            raise
        except BaseException:
            reservation.settle(charge)
            log.lose(entry)
            raise
        reservation.settle(charge)
        log.close(entry, Usage(input=1, output=0))
