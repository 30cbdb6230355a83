"""Faults of SQLite, as one sentence that names the cause and the mend."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent.core.store.nodes import Expected
from agent.errors import StoreError


class HeadMoved(StoreError):  # noqa: N818 - the name says what happened, and callers wait for it
    """Someone else appended to the head first; nothing was written."""

    def __init__(self, session: str, head: str, expected: Expected, found: int | None) -> None:
        super().__init__(
            f"The branch {head} of session {session} went on in another window; "
            "resume the session again to see what was added."
        )
        self.session = session
        self.head = head
        self.expected = expected
        self.found = found
        """The node the head points to now."""


class NoSession(StoreError):  # noqa: N818 - tells a session that is gone from a store that cannot be read
    """There is no such session, or no longer."""


class DamagedStore(StoreError):  # noqa: N818 - names the state of the file
    """The file is no sound database any more. `recover_copy` saves what can be read."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection held the lock, so that trying again can help."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(error: Exception, path: Path) -> StoreError:
    """The sentence for a person. Nothing of a failed transaction was written."""
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
            return damaged(path)
    if "decode to UTF-8" in str(error):
        return damaged(path)
    return StoreError(f"{path} cannot be used: {error}.")


def damaged(path: Path) -> DamagedStore:
    """The error for a file that SQLite cannot make sense of."""
    return DamagedStore(
        f"{path} is damaged; `hermes sessions recover` saves what can be read into a new file beside it."
    )


def _code(error: Exception) -> int:
    """SQLite's primary result code, or 0."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
