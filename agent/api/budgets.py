"""Budgets of agents, and forecasts of what they will use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.spending.budget import Measure as Measure
    from agent.subagents.forecast import Forecast as Forecast
    from agent.subagents.forecast import ForecastSpan as ForecastSpan

__getattr__ = exports(
    __name__,
    {
        "agent.spending.budget": "Measure",
        "agent.subagents.forecast": "Forecast ForecastSpan",
    },
)
