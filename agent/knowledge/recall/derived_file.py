"""A SQLite file beside the store that holds nothing which cannot be made again from it.

It may be deleted at any time, also while it is open: whoever uses it next makes it anew. One that is damaged
is thrown away, one of another program is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from agent.core.store.connection import DamagedStore, Database, address
from agent.errors import StoreError
from tools.kit.files import create_file

log = logging.getLogger(__name__)

T = TypeVar("T")


class DerivedFile:
    """The only connection of this process to one such file, opened when it is first needed."""

    def __init__(
        self,
        path: Path,
        application: int,
        prepare: Callable[[sqlite3.Connection], None],
        check: Callable[[Database], Awaitable[None]],
        cache: int = 16_384,
    ) -> None:
        """`prepare` makes the tables, in a transaction; `check` sees to what the store no longer has.

        `application` is the id at offset 68 of the file; `cache` KiB of it are kept in memory.
        """
        self.path = path
        self._application = application
        self._prepare = prepare
        self._check = check
        self._cache = cache
        self._database: Database | None = None
        self._inode = 0
        self._opening = asyncio.Lock()

    async def mended(self, work: Callable[[Database], Awaitable[T]]) -> T:
        """What `work` gives; once more on a new file where this one is damaged, and where it was deleted.

        Raises `StoreError`.
        """
        try:
            return await work(await self._open())
        except DamagedStore:
            await self.close()
            await asyncio.to_thread(_discard, self.path)
        except StoreError:
            if await asyncio.to_thread(self._is_there):
                raise
            await self.close()
        return await work(await self._open())

    async def close(self) -> None:
        """Let go of the file."""
        if self._database is not None:
            await self._database.close()
            self._database = None

    def _is_there(self) -> bool:
        """Whether the file that is open is the one of that name."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    async def _open(self) -> Database:
        async with self._opening:
            if self._database is None:
                self._database = await self._connect()
            return self._database

    async def _connect(self) -> Database:
        await asyncio.to_thread(_prepare_file, self.path, self._application)
        database = await Database.connect(self.path)
        try:
            await database.bare(self._configure)
            await database.write(self._prepare)
            await self._check(database)
            self._inode = (await asyncio.to_thread(self.path.stat)).st_ino
        except BaseException:
            await database.close()
            raise
        return database

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{self._cache}")
        connection.execute("PRAGMA trusted_schema = OFF")


def _prepare_file(path: Path, expected: int) -> None:
    """Make sure that the file is ours or new, and only its owner can read it. Raises `StoreError`."""
    try:
        try:
            os.close(create_file(path))
        except FileExistsError:
            # Opening and closing it here would drop the locks this process holds on it.
            pass
        if path.stat().st_size == 0:
            return
        with closing(sqlite3.connect(address(path, "mode=ro&immutable=1"), uri=True)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        # Torn or foreign: what it is tells whoever opens it.
        return
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"Cannot use {path}: {reason}; free it or delete it, it is built again.") from error
    if application not in (0, expected):
        raise StoreError(f"{path} belongs to another program; move it away, Hermes builds its own.")


def _discard(path: Path) -> None:
    log.warning("the index %s was damaged and is built again", path)
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)
