"""The person's decisions for a whole session: raised ceilings, forecasts they want no more of.

Each decision is a note in the session that no model sees, on whatever branch it was made,
so it holds in later processes too, and goes with the session.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from agent.core.event_data import Measure
from agent.core.store.connection import read_once
from agent.errors import StoreError
from agent.events import Event, Noticed
from agent.session.conversation.live_session import LiveSession
from agent.session.spending.budget import BudgetReachedError, Ceiling

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
    """A ceiling of `owner` that stood at `stood` was raised to `ceiling`."""

    owner: str
    measure: Measure
    stood: float
    ceiling: float


class Decisions:
    """The decisions of one session. `emit` tells of new ones."""

    def __init__(self, session: LiveSession, emit: Callable[[Event], None]) -> None:
        self._session = session
        self._emit = emit
        self._raised: list[Raised] = []
        self.unasked = False
        """Whether the person wants no forecasts any more."""

    async def recall(self) -> None:
        """Know what was decided in earlier processes. Raises `StoreError`."""

        def read(connection: sqlite3.Connection) -> list[str]:
            with read_once(connection):
                return [text for (text,) in connection.execute(_DECIDED, (self._session.id,))]

        for text in await self._session.store.database.read(read):
            decision = json.loads(text)
            if decision == {"what": UNASKED}:
                self.unasked = True
            elif (raised := _raised(decision)) is not None:
                self._raised.append(raised)

    def apply(self, owner: str, stands: Ceiling) -> None:
        """Raise ceilings as it was decided. One whose setting says something else by now stays as it is."""
        for each in self._raised:
            if each.owner == owner and getattr(stands.budget, each.measure) == each.stood:
                stands.raise_to(each.measure, each.ceiling)

    async def ceiling_raised(self, reached: BudgetReachedError, ceiling: float, words: str) -> None:
        """A ceiling of the session or of one of its agents was raised."""
        raised = Raised(reached.owner, reached.measure, reached.ceiling, ceiling)
        self._raised.append(raised)
        await self._keep(words, {"what": "raised", **asdict(raised)})

    async def ask_no_more(self) -> None:
        """The person wants no forecasts any more."""
        self.unasked = True
        await self._keep(NO_MORE_FORECASTS, {"what": UNASKED})

    async def _keep(self, words: str, decision: Mapping[str, Any]) -> None:
        """Tell of a decision and write it down. It holds in this process even if that fails."""
        self._emit(Noticed(kind="info", text=words))
        try:
            await self._session.add(
                "notice", words, {"kind": "info", "to_model": False, "decision": decision}
            )
        except StoreError as error:
            log.warning("a decision could not be kept: %s", error)


def _raised(decision: Mapping[str, Any]) -> Raised | None:
    """A decision as it was written down; None for one this version does not know."""
    stood, ceiling, measure = (decision.get(name) for name in ("stood", "ceiling", "measure"))
    if measure not in ("turns", "tokens", "money", "seconds"):
        return None
    if not isinstance(stood, (int, float)) or not isinstance(ceiling, (int, float)):
        return None
    return Raised(str(decision.get("owner", "")), cast("Measure", measure), stood, ceiling)
