"""Operations on a session as a whole, which can be undone and redone.

An operation leads from one **place** to another: a branch, its end, and the step that the files are at.
Undoing goes back to the place before the operation and deletes nothing. A new operation clears the redo list,
as in any editor.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, replace

from agent.core.store.nodes import storable


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """A state of a session: the branch in use, its last node, and the step that the files are at."""

    head: str
    """The branch in use."""
    node: int | None
    """The last node of that branch; None if it is empty."""
    step: int
    """The number of the recorded step whose file states are in the workspace."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that can be undone: a turn, restoring files, switching or forking a branch."""

    number: int
    kind: str
    label: str
    """A one-line description for display."""
    created: float
    """Seconds since the epoch."""
    before: SessionPlace
    after: SessionPlace
    undone: bool = False


_COLUMNS = (
    "number, kind, label, created, head_before, node_before, step_before, "
    "head_after, node_after, step_after, undone"
)


def operations(connection: sqlite3.Connection, session: str, limit: int = 200) -> list[Operation]:
    """Return the last `limit` operations of a session, oldest first, including undone ones."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM operations WHERE session = ? ORDER BY number DESC LIMIT ?", (session, limit)
    ).fetchall()
    return [_load(row) for row in reversed(rows)]


def record(
    connection: sqlite3.Connection,
    session: str,
    kind: str,
    label: str,
    before: SessionPlace,
    after: SessionPlace,
) -> Operation:
    """Store an operation and return it. Earlier operations that are undone can no longer be redone."""
    connection.execute("DELETE FROM operations WHERE session = ? AND undone", (session,))
    (last,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM operations WHERE session = ?", (session,)
    ).fetchone()
    done = Operation(last + 1, kind, storable(label), time.time(), before, after)
    connection.execute(
        f"INSERT INTO operations (session, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            session,
            done.number,
            done.kind,
            done.label,
            done.created,
            before.head,
            before.node,
            before.step,
            after.head,
            after.node,
            after.step,
        ),
    )
    return done


def extend(
    connection: sqlite3.Connection, session: str, number: int, label: str, after: SessionPlace
) -> Operation | None:
    """Make the newest operation that is not undone end at `after`, under another label.

    Returns None and changes nothing if its number is not `number`. Undone operations can no longer be redone.
    """
    last = undoable(connection, session)
    if last is None or last.number != number:
        return None
    connection.execute("DELETE FROM operations WHERE session = ? AND undone", (session,))
    connection.execute(
        "UPDATE operations SET label = ?, head_after = ?, node_after = ?, step_after = ? "
        "WHERE session = ? AND number = ?",
        (storable(label), after.head, after.node, after.step, session, number),
    )
    return replace(last, label=storable(label), after=after)


def undoable(connection: sqlite3.Connection, session: str) -> Operation | None:
    """Return the newest operation that is not undone, which an undo would revert; None if there is none."""
    return _one(connection, session, "NOT undone ORDER BY number DESC")


def redoable(connection: sqlite3.Connection, session: str) -> Operation | None:
    """Return the last undone operation, which a redo would repeat; None if there is none."""
    return _one(connection, session, "undone ORDER BY number")


def set_undone(connection: sqlite3.Connection, session: str, number: int, undone: bool) -> None:
    """Record whether an operation is undone."""
    connection.execute(
        "UPDATE operations SET undone = ? WHERE session = ? AND number = ?", (int(undone), session, number)
    )


def _one(connection: sqlite3.Connection, session: str, which: str) -> Operation | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM operations WHERE session = ? AND {which} LIMIT 1", (session,)
    ).fetchone()
    return None if row is None else _load(row)


def _load(row: tuple) -> Operation:
    number, kind, label, created, *places, undone = row
    return Operation(
        number,
        kind,
        label,
        created,
        SessionPlace(*places[:3]),
        SessionPlace(*places[3:]),
        undone=bool(undone),
    )
