"""The tables of `state.db` (`tables.sql`), and the check that a file is a Hermes store.

A store has an `application_id` and the version of its layout in `user_version`. Any other file is left
unchanged.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.store.connection import address, explain
from agent.errors import ConfigError, StoreError
from tools.kit.files import create_file

APPLICATION_ID = 0x4865_726D
"""The text `Herm`, at offset 68 of the file."""

_TABLES = Path(__file__).with_name("tables.sql")

OLDEST_SQLITE = (3, 38, 0)
"""The first release with JSON functions always built in; trigrams are available since 3.34."""

VERSION = 8
"""The version of the layout that this program writes. Earlier versions were not in any release."""


def _statements(script: str) -> list[str]:
    """Return the single statements of a script, so that they can run inside one transaction."""
    statements: list[str] = []
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            statements.append(pending.strip())
            pending = ""
    return statements


def prepare_file(path: Path) -> None:
    """Ensure that `path` is a Hermes store, or a new, empty file; only its owner may read it.

    Blocking. Raises `StoreError` for any other file, which is not changed, and if `path` cannot be used.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} of this Python is too old; "
            f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer."
        )
    try:
        if _is_new(path):
            return
        _check_owner(path)
        if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
            raise StoreError(f"{path} is read-only; make the file and its folder writable for you.")
        info = path.stat()
        if stat.S_IMODE(info.st_mode) & 0o077 and info.st_uid == os.getuid():
            path.chmod(PRIVATE_FILE)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"Cannot use {path}: {reason}; free it or set HERMES_HOME.") from error
    except ConfigError as error:
        raise StoreError(str(error)) from error


def _is_new(path: Path) -> bool:
    """Create the file if it does not exist; return whether it is empty. Raises `StoreError`."""
    if not path.exists():
        if not path.parent.is_dir() or not path.parent.stat().st_mode & stat.S_ISVTX:
            # A shared (sticky) folder is left unchanged; any other one becomes private.
            private_folder(path.parent)
        try:
            os.close(create_file(path))
        except FileExistsError:
            if path.is_symlink() and not path.exists():
                raise StoreError(f"{path} is a link that leads nowhere; remove it.") from None
    if not path.is_file():
        raise StoreError(f"{path} is not a file; move it away so that Hermes can keep its sessions there.")
    return path.stat().st_size == 0


def _check_owner(path: Path) -> None:
    """Raise `StoreError` unless the file is marked as a Hermes store with this program's version of the
    layout.

    `immutable` makes SQLite read the header without a lock, a journal or any other trace. The file is not
    opened directly, because closing it would drop the locks that this process holds on it.
    """
    try:
        with closing(sqlite3.connect(address(path, "immutable=1"), uri=True)) as connection:
            # Without this, a file whose last transaction was cut short counts as damaged before
            # its journal had a chance to repair it.
            connection.execute("PRAGMA writable_schema = ON")
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
            raise StoreError(
                f"{path} is not a session store of Hermes; move it away or set HERMES_HOME."
            ) from None
        raise explain(error, path) from error
    if application != APPLICATION_ID:
        raise StoreError(f"{path} belongs to another program; move it away or set HERMES_HOME.")
    if 0 < version < VERSION:
        raise StoreError(
            f"{path} was written by a Hermes from before its first release (layout {version}); "
            "move it away or set HERMES_HOME."
        )
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer Hermes (layout {version}, this one knows {VERSION}); "
            "update Hermes."
        )


def configure(connection: sqlite3.Connection) -> None:
    """Set the options of a new connection. Call it once, outside a transaction."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -16384")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def is_current(connection: sqlite3.Connection) -> bool:
    """Return whether the tables exist and are up to date. Reads the whole schema, so that a damaged one
    raises an error.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        connection.execute("SELECT 1 FROM sessions LIMIT 1").fetchone()
    return version == VERSION


def create(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty file, unless another process has created them. Runs inside a
    transaction.
    """
    if is_current(connection):
        return
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in _statements(_TABLES.read_text(encoding="utf-8")):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def choose_journal(connection: sqlite3.Connection) -> None:
    """Set the rollback journal while the file is still empty. Call it outside a transaction.

    The SQLite of many systems has a bug in WAL mode that can damage a file; a few rows per turn do not need
    the advantages of WAL.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
