"""The one connection to the session store that all sessions of a worker process share.

Commits are what a batch waits for: writes of several sessions that wait at the same time become one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.store.connection import Database
from agent.store.store import Store


class SharedStore:
    """Opened by whoever asks first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = asyncio.Lock()
        self._store: Store | None = None

    async def database(self) -> Database:
        """The connection. Raises `StoreError`; then the next one to ask tries again."""
        async with self._opening:
            if self._store is None:
                self._store = await Store.open(self._path)
            return self._store.database

    async def aclose(self) -> None:
        """Finish what is queued and close."""
        if self._store is not None:
            await self._store.close()
