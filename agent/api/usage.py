"""Usage of a session: context, tokens, money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.knowledge.context.context_table import ContextLayer as ContextLayer
    from agent.knowledge.context.context_table import ContextTable as ContextTable
    from agent.session.spending.overview import SpendingBound as SpendingBound
    from agent.session.spending.overview import SpendingOverview as SpendingOverview
    from agent.session.spending.prices import prices_of as prices_of
    from agent.session.spending.report import UsageLine as UsageLine
    from agent.session.spending.report import UsageReport as UsageReport
    from agent.session.spending.report import report as report
    from agent.session.spending.report import title as title
    from agent.session.spending.request_table import MAIN as MAIN
    from agent.session.spending.request_table import SENT as SENT
    from agent.session.spending.request_table import SIDE as SIDE

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.context.context_table": "ContextTable ContextLayer",
        "agent.session.spending.overview": "SpendingBound SpendingOverview",
        "agent.session.spending.prices": "prices_of",
        "agent.session.spending.report": "UsageLine UsageReport report title",
        "agent.session.spending.request_table": "MAIN SENT SIDE",
    },
)
