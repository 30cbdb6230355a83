"""Messengers as a person asks about them: how they stand, who may talk, where a session goes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.errors import ConfigError
from agent.gateways import message_rows, people
from agent.gateways.adapter import Place
from agent.gateways.homes import home_of, place_of
from agent.gateways.people import ChatScope, Person
from agent.store.connection import Database


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

    async def put(
        self, target: str, body: Mapping[str, Any], homes: Mapping[str, str], kind: str = "text"
    ) -> int:
        """Let something be sent to `GATEWAY` or `GATEWAY:CHAT[/THREAD]`; its row. Raises `ConfigError`."""
        name, _, chat = target.partition(":")
        if name not in homes:
            raise ConfigError(f"There is no messenger {name[:40]!r}; there are {', '.join(homes)}.")

        def down(c: Any) -> int:
            place = place_of(chat) if chat else home_of(c, name, homes[name])
            if place is None:
                raise ConfigError(
                    f"{name} has no chat to send to; pair somebody, or set gateways.{name}.home."
                )
            return message_rows.deliver(c, name, place, kind, body, time.time())

        return await self._database.write(down)

    async def receipt(self, row: int) -> tuple[str, str]:
        """State and problem of something that was put down: `waiting`, `sent` or `failed`."""
        found = await self._database.read(
            lambda c: c.execute("SELECT state, problem FROM deliveries WHERE id = ?", (row,)).fetchone()
        )
        return (found[0], found[1]) if found else ("failed", "")

    async def move(self, session: str, gateway: str, home: str, told: int) -> Place:
        """Let the chat of a messenger go on with a session. Raises `ConfigError`."""

        def bind(c: Any) -> Place:
            place = home_of(c, gateway, home)
            if place is None:
                raise ConfigError(f"There is no chat of yours at {gateway}; write there once.")
            now = time.time()
            message_rows.bind(c, gateway, place, session, told, False, now)
            message_rows.deliver(c, gateway, place, "text", {"text": "Here goes on what ran elsewhere."}, now)
            return place

        return await self._database.write(bind)
