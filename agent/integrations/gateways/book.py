"""Messengers as a person asks about them: how they stand, who may talk, where a session goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.core.store.connection import Database
from agent.integrations.gateways import message_rows, people
from agent.integrations.gateways.people import ChatScope, Person


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """How a gateway stands."""

    name: str
    state: str
    who: str
    problem: str
    since: float
    """Seconds since the epoch; 0: it never ran."""
    waiting: int
    owed: int
    failed: int


class GatewayBook:
    """Asks the store. Every method raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self, names: Sequence[str]) -> list[GatewayStatus]:
        """How these stand."""

        def look(c: Any) -> list[GatewayStatus]:
            states = message_rows.states(c)
            return [
                GatewayStatus(
                    name, *states.get(name, ("stopped", "", "", 0.0)), *message_rows.counts(c, name)
                )
                for name in names
            ]

        return await self._database.read(look)

    async def pair(self, code: str, scope: ChatScope) -> Person:
        """Let in whoever holds a code. Raises `ConfigError`."""
        return await self._database.write(lambda c: people.pair(c, code, scope, time.time()))

    async def people(self) -> list[Person]:
        """All who wrote, those without a scope only hold a code."""
        return await self._database.read(people.people)

    async def revoke(self, id: str) -> Person:
        """Let somebody in no longer. Raises `ConfigError`."""
        return await self._database.write(lambda c: people.revoke(c, id))
