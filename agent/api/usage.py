"""Usage of a session: context, tokens, money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.context.context_table import ContextLayer as ContextLayer
    from agent.context.context_table import ContextTable as ContextTable
    from agent.spending.overview import SpendingBound as SpendingBound
    from agent.spending.overview import SpendingOverview as SpendingOverview
    from agent.spending.prices import prices_of as prices_of
    from agent.spending.report import UsageLine as UsageLine
    from agent.spending.report import UsageReport as UsageReport
    from agent.spending.report import report as report
    from agent.spending.report import title as title
    from agent.spending.request_table import MAIN as MAIN
    from agent.spending.request_table import SENT as SENT
    from agent.spending.request_table import SIDE as SIDE

__getattr__ = exports(
    __name__,
    {
        "agent.context.context_table": "ContextTable ContextLayer",
        "agent.spending.overview": "SpendingBound SpendingOverview",
        "agent.spending.prices": "prices_of",
        "agent.spending.report": "UsageLine UsageReport report title",
        "agent.spending.request_table": "MAIN SENT SIDE",
    },
)
