"""Metering of one session: its account, its request log, what happens at a ceiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.model.catalog import ModelInfo
from agent.model.protocol import ModelClient
from agent.model.transport.waits import NoPause, NoThrottle, Pause, Throttle
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError
from agent.session.spending.metered_client import MeteredClient, Reached, RequestTally
from agent.session.spending.request_log import request_log_of
from agent.session.spending.request_table import MAIN, SIDE, Payer

if TYPE_CHECKING:
    from agent.core.config.schema import BudgetSettings
    from agent.model.transport.reply import ModelRoute
    from agent.session.spending.spending import Spending

Infos = Mapping[str, ModelInfo]
"""What is known of the models of a session, by the names of their routes."""


class Metering:
    """Meters every request of a session. `account` is what all of them take from.

    `agent` names whose engine it is, as `Payer.agent` does. `reached` may be set by a surface: it is
    awaited when a ceiling stands in the way, with the error whose `stands.raise_to(measure, value)`
    raises it; True tries the request again.
    """

    def __init__(
        self,
        spending: Spending,
        account: BudgetAccount,
        session: str,
        project: str,
        infos: Infos,
        agent: str = MAIN,
    ) -> None:
        self.spending = spending
        self.account = account
        self.session = session
        self.reached: Reached = never_raised
        self._project = project
        self._infos = infos
        self._agent = agent

    def client(
        self,
        client: ModelClient,
        model: str,
        agent: str = "",
        *,
        account: BudgetAccount | None = None,
        throttle: Throttle | None = None,
        pause: Pause | None = None,
        tally: RequestTally | None = None,
        told: Callable[[], None] = lambda: None,
        reached: Reached | None = None,
    ) -> MeteredClient:
        """A metered way to a model (by the name of its route) for an agent, at first the engine's own.

        `reached` is awaited at a ceiling in place of that of the session.
        """
        info = self._infos.get(model) or self.spending.prices(model)
        payer = Payer(session=self.session, project=self._project, agent=agent or self._agent, model=model)
        return MeteredClient(
            client,
            account or self.account,
            info,
            throttle or NoThrottle(),
            pause or NoPause(),
            tally or RequestTally(),
            told,
            request_log=request_log_of(self.spending, payer, info),
            reached=reached or self._raised,
        )

    def routes(self, routes: Sequence[ModelRoute]) -> list[ModelRoute]:
        """The routes of the engine's own agent, metered."""
        return [replace(route, client=self.client(route.client, route.name)) for route in routes]

    def side(self, client: ModelClient, model: str) -> MeteredClient:
        """A metered way to the side model of the smart mode."""
        return self.client(client, model, SIDE, reached=never_raised)

    async def _raised(self, error: BudgetReachedError) -> bool:
        return await self.reached(error)


async def never_raised(_reached: BudgetReachedError) -> bool:
    """Nobody is asked to raise a ceiling, as for a second opinion: the rules decide alone then."""
    return False


def session_budget(settings: BudgetSettings) -> Budget:
    """The ceilings of a session."""
    limits = settings.session
    return Budget(turns=limits.turns, tokens=limits.tokens, money=limits.money)


def total_budget(settings: BudgetSettings) -> Budget:
    """The ceilings of a home for all time."""
    return Budget(tokens=settings.total.tokens, money=settings.total.money)


def day_budget(settings: BudgetSettings) -> Budget:
    """The ceilings of a day."""
    return Budget(tokens=settings.day.tokens, money=settings.day.money)
