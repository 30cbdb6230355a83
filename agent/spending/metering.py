"""How the requests of one session are paid for: its purse, its accounts, what happens at a ceiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.model.catalog import ModelInfo
from agent.model.protocol import ModelClient
from agent.spending.account import account_of
from agent.spending.table import MAIN, SIDE, Payer
from agent.subagents.budget import Budget, BudgetReachedError, Purse
from agent.subagents.metered import MeteredClient, Reached, Tally

if TYPE_CHECKING:
    from agent.config.schema import BudgetSettings
    from agent.model.transport.reply import Route
    from agent.spending.spending import Spending
    from agent.subagents.pause import Pause
    from agent.subagents.throttle import Throttle

Infos = Mapping[str, ModelInfo]
"""What is known of the models of a session, by the names of their routes."""


class Metering:
    """Meters every request of a session. `purse` is what all of them take from.

    `agent` names whose engine it is, as `Payer.agent` does. `reached` may be set by a surface: it is
    awaited when a ceiling stands in the way, with the error whose `stands.raise_to(measure, value)`
    raises it; True tries the request again.
    """

    def __init__(
        self, spending: Spending, purse: Purse, session: str, project: str, infos: Infos, agent: str = MAIN
    ) -> None:
        self.spending = spending
        self.purse = purse
        self.session = session
        self.reached: Reached | None = None
        self._project = project
        self._infos = infos
        self._agent = agent

    def beside(self, agent: str, infos: Infos) -> Metering:
        """The same for an engine of its own that works for the same session, on the same purse."""
        other = Metering(self.spending, self.purse, self.session, self._project, infos, agent)
        other.reached = self._raised
        return other

    def client(
        self,
        client: ModelClient,
        model: str,
        agent: str = "",
        *,
        purse: Purse | None = None,
        throttle: Throttle | None = None,
        pause: Pause | None = None,
        tally: Tally | None = None,
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
            purse or self.purse,
            info,
            throttle,
            pause,
            tally or Tally(),
            told,
            account=account_of(self.spending, payer, info),
            reached=reached or self._raised,
        )

    def routes(self, routes: Sequence[Route]) -> list[Route]:
        """The routes of the engine's own agent, metered."""
        return [replace(route, client=self.client(route.client, route.name)) for route in routes]

    def side(self, client: ModelClient, model: str) -> MeteredClient:
        """A metered way to the side model of the smart mode."""
        return self.client(client, model, SIDE, reached=_never)

    async def _raised(self, error: BudgetReachedError) -> bool:
        return self.reached is not None and await self.reached(error)


async def _never(_reached: BudgetReachedError) -> bool:
    """Nobody is asked to raise a ceiling for a second opinion: the rules decide alone then."""
    return False


def session_budget(settings: BudgetSettings) -> Budget:
    """The ceilings of a session."""
    limits = settings.session
    return Budget(turns=limits.turns, tokens=limits.tokens, money=limits.money)


def day_budget(settings: BudgetSettings) -> Budget:
    """The ceilings of a day."""
    return Budget(tokens=settings.day.tokens, money=settings.day.money)
