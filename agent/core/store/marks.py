"""Labels and bookmarks that the user puts on nodes, and reserved event numbers."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from agent.core.store import node_tree
from agent.core.store.nodes import storable
from agent.errors import StoreError
from tools.text.words import one_line

MAX_LABEL = 80
"""The limit on a label in characters."""


@dataclass(frozen=True, slots=True)
class NodeMark:
    """The user's mark on a node: a label, a bookmark, or both."""

    node: int
    label: str
    bookmarked: bool


def marks(connection: sqlite3.Connection, session: str) -> list[NodeMark]:
    """Return all marks of a session, sorted by node."""
    rows = connection.execute(
        "SELECT node, label, bookmarked FROM marks WHERE session = ? ORDER BY node", (session,)
    )
    return [NodeMark(node, label, bool(bookmarked)) for node, label, bookmarked in rows]


def mark(
    connection: sqlite3.Connection,
    session: str,
    node: int,
    *,
    label: str | None = None,
    bookmarked: bool | None = None,
) -> NodeMark:
    """Set a label (empty removes it) or a bookmark; None leaves that part unchanged. Return the new mark.

    Raises `StoreError` for a node of another session and for a label that is too long.
    """
    node_tree.node_of(connection, session, node)
    row = connection.execute(
        "SELECT label, bookmarked FROM marks WHERE session = ? AND node = ?", (session, node)
    ).fetchone()
    old = NodeMark(node, row[0], bool(row[1])) if row else NodeMark(node, "", False)
    new = NodeMark(
        node,
        old.label if label is None else _tidy(label),
        old.bookmarked if bookmarked is None else bookmarked,
    )
    connection.execute("DELETE FROM marks WHERE session = ? AND node = ?", (session, node))
    if new.label or new.bookmarked:
        connection.execute(
            "INSERT INTO marks VALUES (?, ?, ?, ?, ?)",
            (session, node, new.label, int(new.bookmarked), time.time()),
        )
    return new


def _tidy(label: str) -> str:
    line = one_line(storable(label))
    if len(line) > MAX_LABEL:
        raise StoreError(f"A label has at most {MAX_LABEL} characters; this one has {len(line)}.")
    return line


def reserve(connection: sqlite3.Connection, session: str, count: int) -> int:
    """Reserve `count` event numbers for one process; return the first of them, or 1 if the
    session is gone.
    """
    row = connection.execute(
        "UPDATE sessions SET events = events + ? WHERE id = ? RETURNING events", (count, session)
    ).fetchone()
    return row[0] - count + 1 if row else 1


def give_back(connection: sqlite3.Connection, session: str, last: int, reserved: int) -> None:
    """Free the event numbers after `last`, unless more were reserved after `reserved` since then."""
    connection.execute(
        "UPDATE sessions SET events = ? WHERE id = ? AND events = ?", (last, session, reserved)
    )
