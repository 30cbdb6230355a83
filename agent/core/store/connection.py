"""One SQLite connection on its own thread, to which a whole transaction is passed at once.

A transaction is a function that receives the connection. It runs on aiosqlite's thread from BEGIN to COMMIT,
so the event loop hands it over only once. A cancelled task can neither split it nor leave it open: a
transaction that was handed over is carried out.

Waiting writes are committed together, each within its own savepoint: the disk is synchronized once for all of
them, and a failing write does not affect the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import aiosqlite

from agent.core.store.nodes import Expected
from agent.errors import StoreError
from tools.kit.threads import to_the_end


class HeadMoved(StoreError):  # noqa: N818 - the name says what happened, and callers wait for it
    """Raised if another writer added nodes to the branch first; nothing was written."""

    def __init__(self, session: str, head: str, expected: Expected, found: int | None) -> None:
        super().__init__(
            f"The branch {head} of session {session} was continued in another window; "
            "resume the session again to see what was added."
        )
        self.session = session
        self.head = head
        self.expected = expected
        self.found = found
        """The node that is now the last one of the branch."""


class NoSession(StoreError):  # noqa: N818 - tells a session that is gone from a store that cannot be read
    """Raised if a session does not exist, or no longer exists."""


class DamagedStore(StoreError):  # noqa: N818 - names the state of the file
    """Raised if the file is no longer a valid database. `recover_copy` saves what can be read."""


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection held the lock, so that a retry can help."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(error: Exception, path: Path) -> StoreError:
    """Return the database error as an exception whose text tells the user the cause and the fix."""
    if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
        return StoreError(f"{path} was moved or deleted while it was in use; restart Hermes.")
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(f"{path} is locked by another program; close that program and try again.")
        case sqlite3.SQLITE_READONLY:
            return StoreError(f"{path} is read-only; make the file and its folder writable for you.")
        case sqlite3.SQLITE_FULL:
            return StoreError(f"The disk that holds {path} is full; free some space and try again.")
        case sqlite3.SQLITE_IOERR:
            return StoreError(
                f"The disk failed while {path} was in use ({error}); check the disk and its quota."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(f"{path} cannot be opened; check that its folder exists and is yours.")
        case sqlite3.SQLITE_TOOBIG:
            return StoreError("A message is larger than the store can hold (1 GB); nothing was saved.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damage_error(path)
    if "decode to UTF-8" in str(error):
        return damage_error(path)
    return StoreError(f"{path} cannot be used: {error}.")


def damage_error(path: Path) -> DamagedStore:
    """Return the error for a database file that is damaged."""
    return DamagedStore(
        f"{path} is damaged; `hermes sessions recover` saves what can be read into a new file beside it."
    )


def _code(error: Exception) -> int:
    """Return SQLite's primary result code, or 0."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

WAIT = 15.0
"""Seconds to wait for another process that holds the database lock."""

_TRIES = 4
_MOST_TOGETHER = 32
"""The number of writes that are committed together."""
_FEW_PAGES = 512
"""The size of the small cache in KiB."""
_PAUSE = (0.005, 0.05)
"""The range of the random pause in seconds between two tries, so that two processes do not keep colliding."""


class _Write:
    """A queued write, and its result."""

    def __init__(self, work: Work[Any], *, awaited: bool = True) -> None:
        self.work = work
        self.awaited = awaited
        self.value: Any = None
        self.error: BaseException | None = None
        self.over = False

    def run(self, execute: Callable[[Work[Any]], Any]) -> None:
        """Run the write with `execute`, and store the result for the waiting caller."""
        try:
            self.value, self.error = execute(self.work), None
        except BaseException as error:
            self.error = error


class _Outcome:
    """A return value wrapped like a cursor, because aiosqlite expects one."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def fetchall(self) -> Any:
        return self._value


class _Connection(sqlite3.Connection):
    """A connection that accepts a function instead of an SQL statement, and calls it with itself.

    aiosqlite passes `execute` to its thread; this is the documented way (`factory`) to run a whole
    transaction in one such call.
    """

    def execute(self, sql: Any, parameters: Any = (), /) -> Any:
        if callable(sql):
            return _Outcome(sql(self))
        return super().execute(sql, parameters)


def address(path: Path, option: str) -> str:
    """Return the URI that opens a database file with an option such as `mode=ro`."""
    return f"{path.absolute().as_uri()}?{option}"


def _begin(connection: aiosqlite.Connection) -> asyncio.Future[Any]:
    """Start opening the database on the connection's thread; return a future for the end of that.

    This is not a task, because a closing event loop would cancel a task, and the opened file would stay open.
    """
    steps = connection.__await__()
    opened = next(steps)

    def finish(_: object) -> None:
        with suppress(StopIteration, sqlite3.Error):
            steps.send(None)

    opened.add_done_callback(finish)
    return opened


def _stop(connection: aiosqlite.Connection) -> asyncio.Future[None]:
    """Stop the connection's thread after its queued work; return a future for the end of that.

    `close` would be a task, which a closing event loop cancels even before it begins.
    """
    ended = connection.stop()
    assert ended is not None  # there is an event loop
    return ended


class Database:
    """This process's connection to one database file."""

    def __init__(self, path: Path, connection: aiosqlite.Connection, wait: float) -> None:
        self.path = path
        self._connection = connection
        self._wait = wait
        self._closed = False
        self._writes: deque[_Write] = deque()
        """The writes that no transaction has included yet."""

    @classmethod
    async def connect(cls, path: Path, *, wait: float = WAIT) -> Database:
        """Connect to an existing file. Raises `StoreError`, for a missing file as well."""
        connection = aiosqlite.connect(
            # A file that has vanished must not be created again as empty.
            address(path, "mode=rw"),
            uri=True,
            isolation_level=None,
            timeout=wait / _TRIES,
            factory=_Connection,
        )
        opening = _begin(connection)
        try:
            await to_the_end(opening)
        except sqlite3.Error as error:
            raise explain(error, path) from error
        except asyncio.CancelledError:
            # No other code would close it.
            if opening.exception() is None:
                await to_the_end(_stop(connection))
            raise
        return cls(path, connection, wait)

    async def read(self, work: Work[T]) -> T:
        """Run `work` in a read transaction, so that it sees one consistent state. Raises `StoreError`."""
        return await self._run(lambda connection: _attempt(connection, "BEGIN", work, self._wait))

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction, completely or not at all. If the database was locked, `work` may run
        again.

        Raises `StoreError`, and the errors of `work`; nothing is written then.
        """
        self._check()
        write = _Write(work)
        self._writes.append(write)

        def finish_write(connection: sqlite3.Connection) -> Any:
            # An earlier transaction may have included it.
            while not write.over:
                self._commit_together(connection)
            if write.error is not None:
                raise write.error
            return write.value

        return await self._run(finish_write)

    def write_along(self, work: Work[Any]) -> None:
        """Add `work` to the next transaction that writes, or to a last one when the database is closed.

        Use it for data that may be lost if the process ends: errors of `work` are only logged.
        """
        self._check()
        self._writes.append(_Write(work, awaited=False))

    async def flush(self) -> None:
        """Carry out all queued writes and wait for those of a running transaction. Raises `StoreError`. Does
        nothing once closed.
        """
        if not self._closed:
            await self._run(self._finish)

    async def bare(self, work: Work[T]) -> T:
        """Run `work` outside a transaction, as pragmas require. Raises `StoreError`."""
        return await self._run(work)

    async def close(self) -> None:
        """Finish queued writes and close the connection. May be called again. Raises `StoreError`."""
        if not self._closed:
            self._closed = True
            try:
                if self._writes:
                    await self._execute(self._finish)
            finally:
                await to_the_end(_stop(self._connection))

    def _check(self) -> None:
        if self._closed:
            raise StoreError(f"{self.path} was closed; open the store again.")

    async def _run(self, work: Work[T]) -> T:
        self._check()
        return await self._execute(work)

    async def _execute(self, work: Work[T]) -> T:
        try:
            # A function instead of a statement: see `_Connection`.
            return cast("T", await self._connection.execute_fetchall(cast("str", work)))
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        except (OverflowError, UnicodeEncodeError) as error:
            # A number or a name from outside that no row can have.
            raise StoreError(f"{self.path} holds nothing by such a name or number ({error}).") from error

    def _finish(self, connection: sqlite3.Connection) -> None:
        """Carry out all queued writes."""
        while self._writes:
            self._commit_together(connection)

    def _commit_together(self, connection: sqlite3.Connection) -> None:
        """Carry out the oldest queued writes in one transaction. Their errors are stored, not raised."""
        writes = [self._writes.popleft() for _ in range(min(len(self._writes), _MOST_TOGETHER))]

        def alone(work: Work[Any]) -> Any:
            return _attempt(connection, "BEGIN IMMEDIATE", work, self._wait)

        def together(connection: sqlite3.Connection) -> None:
            for write in writes:
                write.run(lambda work: _within(connection, work))
                error = write.error
                if isinstance(error, sqlite3.Error) and (is_busy(error) or not connection.in_transaction):
                    raise error

        if len(writes) == 1:
            writes[0].run(alone)
        else:
            try:
                _attempt(connection, "BEGIN IMMEDIATE", together, self._wait)
            except sqlite3.Error as error:
                self._apart(writes, error, alone)
        for write in writes:
            write.over = True
            if write.error is not None and not write.awaited:
                log.warning("what was to be written along could not be: %s", write.error)

    def _apart(
        self, writes: Sequence[_Write], error: sqlite3.Error, alone: Callable[[Work[Any]], Any]
    ) -> None:
        """Carry out, one by one, writes whose common transaction failed. If the database was locked, they all
        fail.
        """
        for write in writes:
            if is_busy(error):
                # All of them have waited long enough.
                write.error = error
            else:
                # The cause may be one of the writes, so each is tried separately.
                write.run(alone)


@contextmanager
def read_once(connection: sqlite3.Connection) -> Iterator[None]:
    """Use a small page cache inside this context, for data that is read only once, such as a long path."""
    (usual,) = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute(f"PRAGMA cache_size = -{_FEW_PAGES}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA cache_size = {int(usual)}")


def _attempt(connection: sqlite3.Connection, begin: str, work: Work[T], wait: float) -> T:
    give_up = time.monotonic() + wait
    while True:
        try:
            return _once(connection, begin, work)
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() >= give_up:
                raise
            time.sleep(random.uniform(*_PAUSE))


def _within(connection: sqlite3.Connection, work: Work[T]) -> T:
    """Run `work` in a savepoint of the open transaction, completely or not at all."""
    connection.execute("SAVEPOINT one")
    try:
        result = work(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
        raise
    connection.execute("RELEASE one")
    return result


def _once(connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    return result


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite rolls back automatically after some faults (disk full, I/O error).
    if connection.in_transaction:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            log.warning("rollback failed", exc_info=True)
