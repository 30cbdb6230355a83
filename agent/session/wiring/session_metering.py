"""Sets up the metering of an engine's requests."""

from __future__ import annotations

from agent.session.conversation.live_session import LiveSession
from agent.session.spending.budget import Budget, BudgetAccount
from agent.session.spending.metering import Metering, day_budget, session_budget, total_budget
from agent.session.spending.prices import prices_of
from agent.session.spending.shared_budgets import session_ceilings
from agent.session.spending.spending import Spending
from agent.session.wiring.shared_services import SharedServices


def open_metering(base: SharedServices, session: LiveSession) -> Metering:
    """How the requests of the session are paid for."""
    infos = {target.label: target.info for target in base.plan.all}
    settings = base.settings.budget
    spending = Spending(
        base.store.database,
        prices_of(base.settings, base.environ),
        day_budget(settings),
        session_ceilings(session_budget(settings), session.id),
        total_budget(settings),
    )
    base.closers.append(spending.settled)
    # What bounds the session is where all processes see it: in the store.
    account = BudgetAccount(spending.session.owner, Budget())
    return Metering(spending, account, session.id, session.record.workspace, infos)
