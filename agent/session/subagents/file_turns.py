"""Agents that share a workspace: one writes a file at a time, and the next one is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.services.actions import Action, DeletePath, WritePath


@dataclass(slots=True)
class FileTurns:
    """Who changes which path now, and who changed it last. Paths are resolved."""

    locks: dict[Path, asyncio.Lock] = field(default_factory=dict)
    last: dict[Path, str] = field(default_factory=dict)


class FileTurn:
    """One agent among the writers. `tell` takes a note for its model."""

    def __init__(self, agent: str, writers: FileTurns, tell: Callable[[str], None]) -> None:
        self._agent = agent
        self._writers = writers
        self._tell = tell
        self._held: dict[str, list[asyncio.Lock]] = {}

    @asynccontextmanager
    async def during(self, call: str) -> AsyncIterator[None]:
        """The files that the call changes are its own until this ends."""
        self._held[call] = []
        try:
            yield
        finally:
            for lock in self._held.pop(call, ()):
                lock.release()

    async def acting(self, call: str, action: Action) -> None:
        """A call is about to do this: wait until nobody else changes the same file."""
        if not isinstance(action, (WritePath, DeletePath)):
            return
        path = action.path
        lock = self._writers.locks.setdefault(path, asyncio.Lock())
        # A script numbers its calls below its own, which is the one that is carried out.
        held = self._held.get(call, self._held.get(call.rpartition(".")[0]))
        # Who holds one file waits for no other one, so that two never wait for each other.
        if held is not None and lock not in held and not (held and lock.locked()):
            await lock.acquire()
            held.append(lock)
        known = self._writers.last.get(path)
        self._writers.last[path] = self._agent
        if known is not None and known != self._agent:
            self._tell(
                f"[{path} was changed by {known} before you, who works in the same folder. "
                "Read it again before you go on, and keep what the other one did.]"
            )
