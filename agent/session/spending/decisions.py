"""Questions about reached ceilings, and the user's decisions for the whole session."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from agent.core.event_data import Measure
from agent.core.store.connection import read_once
from agent.errors import StoreError
from agent.events import Event, Noticed
from agent.session.conversation.live_session import LiveSession
from agent.session.pending_requests import PendingRequests
from agent.session.spending.budget import BudgetReachedError, Ceiling, amount
from agent.session.spending.spending import DAY_SETTING

log = logging.getLogger(__name__)

_DECIDED = """
SELECT json_extract(data, '$.decision') FROM nodes
WHERE session = ? AND kind = 'notice' AND json_valid(data)
AND json_type(data, '$.decision') = 'object' ORDER BY id
"""
UNASKED = "unasked"
NO_MORE_FORECASTS = "Agents are sent in this session from now on without asking you before."


@dataclass(frozen=True, slots=True)
class Raised:
    """A ceiling of `owner` that was raised. `stood` is the old ceiling, `ceiling` the new one."""

    owner: str
    measure: Measure
    stood: float
    ceiling: float


class Decisions:
    """The user's decisions in one session. `emit` reports new ones."""

    def __init__(self, session: LiveSession, emit: Callable[[Event], None]) -> None:
        self._session = session
        self._emit = emit
        self._raised: list[Raised] = []
        self.unasked = False
        """True if the user does not want to see forecasts any more."""

    async def recall(self) -> None:
        """Read the decisions of earlier processes. Raises `StoreError`."""

        def read(connection: sqlite3.Connection) -> list[str]:
            with read_once(connection):
                return [text for (text,) in connection.execute(_DECIDED, (self._session.id,))]

        for text in await self._session.store.database.read(read):
            decision = json.loads(text)
            if decision == {"what": UNASKED}:
                self.unasked = True
            elif (raised := _parse_decision(decision)) is not None:
                self._raised.append(raised)

    def apply(self, owner: str, stands: Ceiling) -> None:
        """Raise the ceilings of `owner` that the user has decided to raise. A ceiling whose setting has
        changed since the decision is left unchanged.
        """
        for each in self._raised:
            if each.owner == owner and getattr(stands.budget, each.measure) == each.stood:
                stands.raise_to(each.measure, each.ceiling)

    async def ceiling_raised(self, reached: BudgetReachedError, ceiling: float, words: str) -> None:
        """Record that a ceiling of the session or of one of its agents was raised."""
        raised = Raised(reached.owner, reached.measure, reached.ceiling, ceiling)
        self._raised.append(raised)
        await self._keep(words, {"what": "raised", **asdict(raised)})

    async def ask_no_more(self) -> None:
        """Record that the user does not want to be asked about forecasts any more."""
        self.unasked = True
        await self._keep(NO_MORE_FORECASTS, {"what": UNASKED})

    async def _keep(self, words: str, decision: Mapping[str, Any]) -> None:
        """Report a decision and store it. It is in force in this process even if storing fails."""
        self._emit(Noticed(kind="info", text=words))
        try:
            await self._session.add(
                "notice", words, {"kind": "info", "to_model": False, "decision": decision}
            )
        except StoreError as error:
            log.warning("a decision could not be kept: %s", error)


def _parse_decision(decision: Mapping[str, Any]) -> Raised | None:
    """Return the raised ceiling of a stored decision; None for a decision unknown to this version."""
    stood, ceiling, measure = (decision.get(name) for name in ("stood", "ceiling", "measure"))
    if measure not in ("turns", "tokens", "money", "seconds"):
        return None
    if not isinstance(stood, (int, float)) or not isinstance(ceiling, (int, float)):
        return None
    return Raised(str(decision.get("owner", "")), cast("Measure", measure), stood, ceiling)


Key = tuple[str, Measure]


class CeilingQuestions:
    """Asks the user about ceilings that are in the settings, but not about those chosen for an agent at its
    start.

    While one agent asks about a ceiling, others that reach it wait for the same answer. A stop applies to
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
        """The record of raised ceilings; those for a day belong to no session and are not recorded."""
        self.living = living
        """Returns the ids of the agents that were started and have not ended."""
        self._asking: dict[Key, asyncio.Lock] = {}
        self._steps: dict[Key, float] = {}
        """Each ceiling's first value: the step of "the same again"."""
        self._stopped: dict[tuple[Key, float], set[str]] = {}

    def asks(self, reached: BudgetReachedError) -> bool:
        """Return whether the user can be asked to raise the ceiling. Not so if a price is unknown."""
        return bool(self._inbox.attended and reached.setting and not reached.unpriced)

    async def ask(self, reached: BudgetReachedError, agent: str) -> bool:
        """Ask the user to raise a ceiling; return whether it was raised. If not, the agent stops."""
        stands = reached.stands
        if not self.asks(reached):
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
                words = _raise_notice(reached, answer.ceiling)
                if reached.setting.startswith(DAY_SETTING):
                    self._emit(Noticed(kind="info", text=words))
                else:
                    await self.decisions.ceiling_raised(reached, answer.ceiling, words)
                return True
            if answer.outcome == "stopped":
                self._stopped[key, reached.ceiling] = {agent, *self.living()} - {"main"}
            return False


def is_raised(stands: Ceiling, reached: BudgetReachedError) -> bool:
    """Return whether the ceiling is now higher than when it was reached."""
    ceiling = getattr(stands.budget, reached.measure)
    return ceiling is None or ceiling > reached.ceiling


def once_more(reached: BudgetReachedError, step: float) -> float:
    """Return the ceiling, raised by `step` as often as the next request requires. Pure."""
    missing = reached.used + reached.wanted - reached.ceiling
    again = reached.ceiling + step * max(1, math.ceil(missing / step))
    return again if reached.measure in ("money", "seconds") else math.ceil(again)


def _raise_notice(reached: BudgetReachedError, ceiling: float) -> str:
    how = f"from {amount(reached.measure, reached.ceiling)} to {amount(reached.measure, ceiling)}"
    return f"The ceiling of {reached.owner} was raised {how}; {reached.setting} stays as it is."
