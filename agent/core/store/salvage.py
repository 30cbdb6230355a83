"""Recovery of readable data from a damaged store into a new file. The damaged file is never changed."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.core.store import schema
from agent.core.store.connection import address
from agent.core.store.nodes import MAIN
from agent.errors import StoreError

_NODE = "id, session, parent, depth, kind, created, size, data, content, body"
_SMALL = (
    *("sessions", "heads", "drafts", "calls", "marks", "requests"),
    *("learnings", "learning_calls"),
)
"""The tables without conversation text, copied up to the first damage."""

_ROW_BYTES = 16
"""The least size of a row, so that the file's size limits the highest id worth trying."""

_PATIENCE = 200_000
"""The number of failed reads after which the rest is given up."""


def recover_copy(path: Path) -> Path:
    """Copy the readable parts of `path` into a new store next to it, and return its path.

    Blocking. No store may be open on `path` in this process. A message whose predecessor is lost is placed
    after the last one copied before it; lost sessions and branches are created again. Raises `StoreError` if
    nothing can be read or the new file cannot be written.
    """
    if not path.is_file():
        raise StoreError(f"There is no session store at {path}.")
    target = _free_name(path)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="recover-") as folder:
            copy = _copy_store(path, Path(folder))
            new = Path(folder) / "new.db"
            schema.prepare_file(new)
            with (
                closing(_connect(copy, "mode=rw")) as old,
                closing(sqlite3.connect(new, isolation_level=None)) as fresh,
            ):
                _check_ours(old, path)
                schema.configure(fresh)
                fresh.execute("BEGIN IMMEDIATE")
                schema.create(fresh)
                _carry_over(old, fresh, copy.stat().st_size)
                fresh.execute("COMMIT")
            new.rename(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"Cannot copy {path}: {reason}; free some space beside it.") from error
    except sqlite3.Error as error:
        raise StoreError(f"Nothing of {path} can be read ({error}); restore it from a backup.") from error
    return target


def _free_name(path: Path) -> Path:
    stem = f"{path.stem}-recovered-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (
        path.with_name(f"{stem}{suffix}{path.suffix}") for suffix in ("", *(f"-{n}" for n in range(2, 100)))
    )
    return next(name for name in names if not name.exists())


def _copy_store(path: Path, folder: Path) -> Path:
    """Make a private copy of the store with its journal, so that SQLite rolls back an open transaction only
    in the copy.
    """
    copy = folder / path.name
    for name in (path.name, f"{path.name}-journal"):
        source = path.with_name(name)
        if source.exists():
            shutil.copyfile(source, folder / name)
            (folder / name).chmod(0o600)
    return copy


def _connect(path: Path, option: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address(path, option), uri=True, isolation_level=None)
    # Continue where SQLite would stop at the first damage, and accept texts unchanged.
    connection.execute("PRAGMA writable_schema = ON")
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != schema.APPLICATION_ID or version != schema.VERSION:
        raise StoreError(f"{path} is not a session store of this version of Hermes.")


def _carry_over(old: sqlite3.Connection, new: sqlite3.Connection, size: int) -> None:
    for table in _SMALL:
        columns = [row[1] for row in new.execute(f"PRAGMA table_info({table})")]
        for row in _until_damage(old, f"SELECT * FROM {table}"):
            names, marks = ", ".join(columns[: len(row)]), ", ".join("?" * len(row))
            _insert(new, f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", row)
    discarded = {row[0] for row in _until_damage(old, "SELECT session FROM discarded")}
    kept = _Kept()
    for row in _nodes(old, size):
        if row[1] not in discarded and (mended := kept.fit(row)) is not None:
            _insert(new, f"INSERT INTO nodes ({_NODE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", mended)
    if not kept.depths and not new.execute("SELECT count(*) FROM sessions").fetchone()[0]:
        raise StoreError("Nothing of the store can be read; restore it from a backup.")
    _complete(new, kept)
    for index in ("words", "trigrams"):
        new.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")


def _insert(connection: sqlite3.Connection, statement: str, row: Iterable[Any]) -> None:
    try:
        connection.execute(statement, tuple(row))
    except sqlite3.IntegrityError:
        pass  # a damaged row that breaks the rules of its table


def _until_damage(connection: sqlite3.Connection, statement: str) -> Iterator[tuple[Any, ...]]:
    try:
        yield from connection.execute(statement)
    except sqlite3.Error:
        return


def _nodes(connection: sqlite3.Connection, size: int) -> Iterator[tuple[Any, ...]]:
    """Yield every readable node in order of ids. A range of ids that contains damage is halved and read
    again.
    """
    top = size // _ROW_BYTES + 1
    for row in _until_damage(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'nodes'"):
        top = max(top, row[0]) if isinstance(row[0], int) else top
    ranges, failures = [(0, min(top, 2**62))], 0
    while ranges and failures < _PATIENCE:
        low, high = ranges.pop()
        try:
            rows = connection.execute(
                f"SELECT {_NODE} FROM nodes WHERE id > ? AND id <= ? ORDER BY id LIMIT 500", (low, high)
            ).fetchall()
        except sqlite3.Error:
            failures += 1
            if high - low > 1:
                middle = (low + high) // 2
                ranges += [(middle, high), (low, middle)]
            continue
        yield from rows
        if len(rows) == 500:
            ranges.append((rows[-1][0], high))


class _Kept:
    """The nodes copied so far: the depth of each by its id, and id and time of each session's last one."""

    def __init__(self) -> None:
        self.depths: dict[int, int] = {}
        self.last: dict[str, tuple[int, float]] = {}

    def fit(self, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the row of a node with its parent set to a copied node; None if it is not a valid node."""
        node, session, parent, _, kind, created, size, data, content, body = row
        texts = (session, kind, data, content)
        if not all(isinstance(value, str) for value in texts) or not isinstance(created, (int, float)):
            return None
        if parent is not None and parent not in self.depths:
            parent = self.last[session][0] if session in self.last else None
        self.depths[node] = self.depths[parent] + 1 if parent is not None else 1
        self.last[session] = (node, created)
        return node, session, parent, self.depths[node], kind, created, size, data, content, body


def _complete(new: sqlite3.Connection, kept: _Kept) -> None:
    """Create missing sessions and branches for all nodes, and repair branches that end at lost nodes."""
    for session, (node, updated) in kept.last.items():
        (first,) = new.execute("SELECT min(created) FROM nodes WHERE session = ?", (session,)).fetchone()
        new.execute(
            "INSERT OR IGNORE INTO sessions VALUES (?, 'Recovered session', '', '', ?, ?, NULL, 0, 0)",
            (session, first, updated),
        )
        new.execute(
            "UPDATE heads SET node = ? WHERE session = ? AND node NOT IN (SELECT id FROM nodes)",
            (node, session),
        )
        new.execute("INSERT OR IGNORE INTO heads VALUES (?, ?, ?, ?)", (session, MAIN, node, updated))
    new.execute("UPDATE heads SET node = NULL WHERE node NOT IN (SELECT id FROM nodes)")
    new.execute("DELETE FROM marks WHERE node NOT IN (SELECT id FROM nodes)")
    new.execute("INSERT OR IGNORE INTO heads SELECT id, ?, NULL, updated FROM sessions", (MAIN,))
