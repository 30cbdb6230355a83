"""Messages of the session store, with the data that the index needs. Plain functions on a connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from agent.core.store.query_line import Filters, conditions_of
from agent.knowledge.recall.scoring import IndexedMessage, indexed_text

INDEXED_CHARS = 20_000
"""Characters indexed of one message."""

_CHARS_AT_ONCE = 200_000
_NODES_AT_ONCE = 400
_STEPS_UP = 64
"""Entries without text that are skipped between two messages."""

_COLUMNS = (
    "id, session, parent, kind, nodes.created, size, "
    f"CASE WHEN body IS '' THEN '' ELSE substr(coalesce(body, content), 1, {INDEXED_CHARS}) END"
)


def after(connection: sqlite3.Connection, node: int) -> list[IndexedMessage]:
    """Return the next nodes after `node`, in writing order; empty if there are none."""
    gone = {name for (name,) in connection.execute("SELECT session FROM discarded")}
    found: list[IndexedMessage] = []
    spoken: dict[int | None, int | None] = {}
    chars = 0
    cursor = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE id > ? ORDER BY id LIMIT ?", (node, _NODES_AT_ONCE)
    )
    for each, session, parent, kind, created, size, text in cursor.fetchall():
        if parent is not None and parent not in spoken:
            spoken[parent] = _searchable_node(connection, parent)
        before = spoken.get(parent)
        if session in gone:
            text = ""
        spoken[each] = each if text else before
        found.append(IndexedMessage(each, session, before, kind, created, size, text))
        chars += len(text)
        if chars >= _CHARS_AT_ONCE:
            break
    return found


def newest_texts(
    connection: sqlite3.Connection, before: int, count: int, chars: int
) -> list[tuple[int, str]]:
    """Return id and beginning of the `count` newest messages older than `before`, newest first."""
    return connection.execute(
        "SELECT id, substr(coalesce(body, content), 1, ?) FROM nodes "
        "WHERE id < ? AND body IS NOT '' ORDER BY id DESC LIMIT ?",
        (chars, before, count),
    ).fetchall()


def _searchable_node(connection: sqlite3.Connection, node: int | None) -> int | None:
    """Return the node itself if it can be searched, else the nearest earlier one on its path."""
    for _ in range(_STEPS_UP):
        row = connection.execute("SELECT parent, body IS '' FROM nodes WHERE id = ?", (node,)).fetchone()
        if row is None:
            return None
        if not row[1]:
            return node
        node = row[0]
    return None


def up_to(connection: sqlite3.Connection, node: int) -> list[IndexedMessage]:
    """Return the last two messages of a path up to and including `node`, oldest first."""
    found: list[IndexedMessage] = []
    at: int | None = _searchable_node(connection, node)
    while at is not None and len(found) < 2:
        row = connection.execute(f"SELECT {_COLUMNS} FROM nodes WHERE id = ?", (at,)).fetchone()
        before = None if row[2] is None else _searchable_node(connection, row[2])
        found.append(IndexedMessage(row[0], row[1], before, *row[3:]))
        at = before
    return found[::-1]


def indexed_texts(
    connection: sqlite3.Connection, places: Sequence[tuple[int, int, float]]
) -> list[tuple[int, str]] | None:
    """Return node id and text of what was indexed at these places (position, node, time); None if a node is
    gone.
    """
    nodes = json.dumps([node for _, node, _ in places])
    texts = {
        row[0]: row[6]
        for row in connection.execute(
            f"SELECT {_COLUMNS} FROM nodes WHERE id IN (SELECT value FROM json_each(?))", (nodes,)
        )
    }
    if any(node not in texts for _, node, _ in places):
        return None
    return [(position, indexed_text(texts[node], created)) for position, node, created in places]


def newest(connection: sqlite3.Connection) -> int:
    """Return the highest node id ever used."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'nodes'").fetchone()
    return row[0] if row else 0


def moment_of(connection: sqlite3.Connection, node: int) -> float | None:
    """Return the time when a node was written; None if it does not exist."""
    row = connection.execute("SELECT created FROM nodes WHERE id = ?", (node,)).fetchone()
    return row[0] if row else None


def without(connection: sqlite3.Connection, names: Iterable[str]) -> list[str]:
    """Return the sessions among `names` that no longer exist."""
    there = {name for (name,) in connection.execute("SELECT id FROM sessions")}
    return [name for name in names if name not in there]


def _of_sessions(filters: Filters) -> Filters:
    return Filters(
        session=filters.session,
        session_begins=filters.session_begins,
        project=filters.project,
        branch=filters.branch,
    )


def narrows_sessions(filters: Filters) -> bool:
    """Return whether filters exclude whole sessions. Pure."""
    return bool(_of_sessions(filters))


def sessions_within(connection: sqlite3.Connection, filters: Filters) -> list[str]:
    """Return the sessions that pass the filters."""
    conditions, values = conditions_of(_of_sessions(filters))
    where = " AND ".join(condition.replace("nodes.session", "sessions.id") for condition in conditions)
    return [name for (name,) in connection.execute(f"SELECT id FROM sessions WHERE {where}", values)]


def let_through(connection: sqlite3.Connection, filters: Filters, nodes: Sequence[int]) -> dict[int, str]:
    """Return the session of each node that passes the filters and whose session exists."""
    conditions, values = conditions_of(filters)
    where = "".join(f" AND {condition}" for condition in conditions)
    statement = (
        "SELECT nodes.id, nodes.session FROM nodes JOIN sessions ON sessions.id = nodes.session "
        f"WHERE nodes.id IN (SELECT value FROM json_each(?)){where}"
    )
    given: list[Any] = [json.dumps(list(nodes)), *values]
    return dict(connection.execute(statement, given).fetchall())


def sessions_of(connection: sqlite3.Connection, nodes: Sequence[int]) -> dict[int, str]:
    """Return the session of each node."""
    rows = connection.execute(
        "SELECT id, session FROM nodes WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    )
    return dict(rows.fetchall())
