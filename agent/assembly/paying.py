"""How the requests of an engine are paid for."""

from __future__ import annotations

from agent.assembly.foundation import Foundation
from agent.session import LiveSession
from agent.spending.metering import Metering, day_budget, session_budget
from agent.spending.prices import prices_of
from agent.spending.shared import session_ceilings
from agent.spending.spending import Spending
from agent.spending.table import agent_name
from agent.subagents.budget import Budget, Purse


def open_metering(base: Foundation, session: LiveSession) -> Metering:
    """How the requests of the session are paid for; an engine beside it shares its purse."""
    infos = {target.label: target.info for target in base.plan.all}
    if base.metering is not None:
        return base.metering.beside(agent_name(base.agent), infos)
    settings = base.settings.budget
    spending = Spending(
        base.store.database,
        prices_of(base.settings, base.environ),
        day_budget(settings),
        session_ceilings(session_budget(settings), session.id),
    )
    base.closers.append(spending.settled)
    # What bounds the session is where all processes see it: in the store.
    purse = Purse(spending.session.owner, Budget())
    return Metering(spending, purse, session.id, session.record.workspace, infos)
