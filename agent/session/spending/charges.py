"""Charges made from requests that the store added up."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.event_data import Usage
from agent.model.usage import request_cost
from agent.session.spending.budget import Charge
from agent.session.spending.prices import Prices
from agent.session.spending.request_table import RequestSum


def cost_of(each: RequestSum, prices: Prices) -> float | None:
    """US dollars of requests. What had no known price when it left has today's; None: still unknown."""
    if each.cost is not None:
        return each.cost
    return request_cost(Usage(each.input, each.output, each.cached), prices(each.model))


def charge_of(sums: Iterable[RequestSum], prices: Prices) -> tuple[Charge, str]:
    """Everything together, and a model without a known price if there is one (then money is None)."""
    total, unpriced = Charge(), ""
    for each in sums:
        cost = cost_of(each, prices)
        unpriced = unpriced if cost is not None else each.model
        total += Charge(each.requests, each.input + each.output, cost)
    return total, unpriced
