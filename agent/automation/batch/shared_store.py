"""The one connection to the session store that all sessions of a worker process share.

Commits are what a batch waits for: writes of several sessions that wait at the same time become one.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from agent.core.store.connection import Database
from agent.core.store.store import Store

_CACHE = 2048
"""KiB of the database that a worker keeps in memory: each task reads only what it has just written."""


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
                store = await Store.open(self._path)
                await store.database.read(_keep_little)
                self._store = store
            return self._store.database

    async def aclose(self) -> None:
        """Finish what is queued and close."""
        if self._store is not None:
            await self._store.close()


def _keep_little(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")
