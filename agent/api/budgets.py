"""Budgets of agents, and forecasts of what they will use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.event_data import Forecast as Forecast
    from agent.core.event_data import ForecastSpan as ForecastSpan
    from agent.core.event_data import Measure as Measure

__getattr__ = exports(
    __name__,
    {"agent.core.event_data": "Forecast ForecastSpan Measure"},
)
