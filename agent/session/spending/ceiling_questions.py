"""Ceilings that stand in the way: the person is asked, once for all that reach the same one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable

from agent.core.event_data import Measure
from agent.events import Event, Noticed
from agent.session.pending_requests import PendingRequests
from agent.session.spending.budget import BudgetReachedError, Ceiling, amount
from agent.session.spending.decisions import Decisions
from agent.session.spending.shared_budgets import DAY_SETTING

Key = tuple[str, Measure]


class CeilingQuestions:
    """Asks about ceilings of the settings. Those a sender chose for its agents hold without a question.

    While one agent asks about a ceiling, others that reach it wait for the same answer. A stop counts for
    every agent of `living` at that moment, so that one answer ends a whole group.
    """

    def __init__(
        self,
        pending_requests: PendingRequests,
        emit: Callable[[Event], None],
        decisions: Decisions,
        living: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._inbox = pending_requests
        self._emit = emit
        self.decisions = decisions
        """Where raised ceilings are kept; those of a day, which is no session's, are not."""
        self.living = living
        """The agents that have been sent and are not over, by id."""
        self._asking: dict[Key, asyncio.Lock] = {}
        self._steps: dict[Key, float] = {}
        """Each ceiling as it was at first: what "the same again" means."""
        self._stopped: dict[tuple[Key, float], set[str]] = {}

    def asks(self, reached: BudgetReachedError) -> bool:
        """Whether the person can do something about it here: more room is of no use without a price."""
        return bool(
            self._inbox.attended and reached.setting and reached.stands is not None and not reached.unpriced
        )

    async def ask(self, reached: BudgetReachedError, agent: str) -> bool:
        """Whether the ceiling has been raised. False: the agent stops where it is."""
        stands = reached.stands
        if stands is None or not self.asks(reached):
            return False
        key = (reached.owner, reached.measure)
        async with self._asking.setdefault(key, asyncio.Lock()):
            if is_raised(stands, reached):
                return True
            if agent in self._stopped.get((key, reached.ceiling), ()):
                return False
            step = self._steps.setdefault(key, reached.ceiling)
            answer = await self._inbox.raise_ceiling(reached, once_more(reached, step), agent)
            if answer.outcome == "raised" and answer.ceiling > reached.ceiling:
                stands.raise_to(reached.measure, answer.ceiling)
                words = _told(reached, answer.ceiling)
                if reached.setting.startswith(DAY_SETTING):
                    self._emit(Noticed(kind="info", text=words))
                else:
                    await self.decisions.ceiling_raised(reached, answer.ceiling, words)
                return True
            if answer.outcome == "stopped":
                self._stopped[key, reached.ceiling] = {agent, *self.living()} - {"main"}
            return False


def is_raised(stands: Ceiling, reached: BudgetReachedError) -> bool:
    """Whether there is more room now than there was."""
    ceiling = getattr(stands.budget, reached.measure)
    return ceiling is None or ceiling > reached.ceiling


def once_more(reached: BudgetReachedError, step: float) -> float:
    """The ceiling with `step` on top, as often as the next request needs. Pure."""
    missing = reached.used + reached.wanted - reached.ceiling
    again = reached.ceiling + step * max(1, math.ceil(missing / step))
    return again if reached.measure in ("money", "seconds") else math.ceil(again)


def _told(reached: BudgetReachedError, ceiling: float) -> str:
    how = f"from {amount(reached.measure, reached.ceiling)} to {amount(reached.measure, ceiling)}"
    return f"The ceiling of {reached.owner} was raised {how}; {reached.setting} stays as it is."
