"""How the requests of an engine are paid for."""

from __future__ import annotations

from agent.assembly.foundation import Foundation
from agent.session import LiveSession
from agent.spending.metering import OWNER, SETTING, Metering, day_budget, session_budget
from agent.spending.prices import prices_of
from agent.spending.spending import Spending
from agent.spending.table import agent_name
from agent.subagents.budget import Budget, Purse


def open_metering(base: Foundation, session: LiveSession) -> Metering:
    """How the requests of the session are paid for; an engine beside it shares its purse."""
    infos = {target.label: target.info for target in base.plan.all}
    if base.metering is not None:
        return base.metering.beside(agent_name(base.agent), infos)
    settings = base.settings.budget
    bounds = session_budget(settings)
    spending = Spending(
        base.store.database,
        prices_of(base.settings, base.environ),
        day_budget(settings),
        firm=bounds != Budget(),
    )
    base.closers.append(spending.settled)
    purse = Purse(OWNER, bounds, setting=SETTING)
    return Metering(spending, purse, session.id, session.record.workspace, infos)
