"""Writing and reading of the tree of nodes: functions on a connection, which `Store` runs as transactions."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from sys import intern
from typing import Any

from agent.core.store.connection import HeadMoved, read_once
from agent.core.store.nodes import (
    ANY,
    KINDS,
    MAIN,
    BranchHead,
    Expected,
    NewNode,
    Node,
    searchable,
    storable,
    title_of,
)
from agent.core.store.received import RECEIVED, mark_taken
from agent.errors import StoreError
from tools.text.safe_text import clean

_COLUMNS = "id, session, parent, kind, created, content, data"
_LINE = (
    "WITH RECURSIVE line (node, up, step) AS ("
    "  SELECT id, parent, 1 FROM nodes WHERE id = :node"
    "  UNION ALL"
    "  SELECT nodes.id, nodes.parent, step + 1 FROM line JOIN nodes ON nodes.id = line.up"
    "  WHERE step < :count)"
)
"""A query for a node and its ancestors, up to `:count` nodes, newest first."""
_MAX_HEAD_NAME = 100


def append(
    connection: sqlite3.Connection,
    session: str,
    head: str,
    new: Sequence[NewNode],
    expected: Expected = ANY,
    secrets: Mapping[str, str] | None = None,
) -> list[Node]:
    """Add nodes to the branch `head`, one below the other, and move its end to the last one; return the
    nodes.

    Raises `HeadMoved` if `expected` is given and is not the branch's last node, and `StoreError` if the
    session or branch does not exist.
    """
    parent, depth = _tip(connection, session, head)
    check_tip(session, head, expected, parent)
    nodes: list[Node] = []
    for item in new:
        depth += 1
        node = _insert(connection, session, parent, depth, item)
        if RECEIVED in item.data:
            mark_taken(connection, item.data[RECEIVED], session, node.id)
        nodes.append(node)
        parent = node.id
    if nodes:
        _touch(connection, session, head, nodes, secrets or {})
    return nodes


def check_tip(session: str, head: str, expected: Expected, found: int | None) -> None:
    """Raise `HeadMoved` if `expected` is given and differs from `found`, the last node of the branch."""
    if expected is not ANY and expected != found:
        raise HeadMoved(session, head, expected, found)


def _tip(connection: sqlite3.Connection, session: str, head: str) -> tuple[int | None, int]:
    """Return the last node of a branch and its depth; None and 0 for an empty branch. Raises `StoreError`."""
    row = connection.execute(
        "SELECT heads.node, coalesce(nodes.depth, 0) FROM heads LEFT JOIN nodes ON nodes.id = heads.node "
        "WHERE heads.session = ? AND heads.name = ?",
        (session, head),
    ).fetchone()
    if row is None:
        raise _no_head(connection, session, head)
    return row


def _no_head(connection: sqlite3.Connection, session: str, head: str) -> StoreError:
    names = [name for (name,) in connection.execute("SELECT name FROM heads WHERE session = ?", (session,))]
    if not names:
        return StoreError(f"There is no session {clean(session)}; it may have been deleted.")
    return StoreError(f"Session {session} has no branch {clean(head)}; it has {', '.join(names)}.")


def _insert(
    connection: sqlite3.Connection, session: str, parent: int | None, depth: int, new: NewNode
) -> Node:
    if new.kind not in KINDS:
        raise StoreError(
            f"There is no kind of node called {new.kind}; use one of {', '.join(sorted(KINDS))}."
        )
    content, created = storable(new.content), time.time()
    text = storable(searchable(new.kind, content, new.data))
    cursor = connection.execute(
        "INSERT INTO nodes (session, parent, depth, kind, created, size, data, content, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session,
            parent,
            depth,
            new.kind,
            created,
            len(text),
            dump(new.data),
            content,
            None if text and text == content else text,
        ),
    )
    node = cursor.lastrowid
    assert node is not None
    if text:
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (node, text))
        connection.execute("INSERT INTO trigrams (rowid, body) VALUES (?, ?)", (node, text))
    return Node(node, session, parent, new.kind, created, content, dict(new.data))


def _touch(
    connection: sqlite3.Connection, session: str, head: str, nodes: Sequence[Node], secrets: Mapping[str, str]
) -> None:
    """Move the head, delete the draft that became a node, and title a session that has no title yet."""
    now = nodes[-1].created
    connection.execute(
        "UPDATE heads SET node = ?, updated = ? WHERE session = ? AND name = ?",
        (nodes[-1].id, now, session, head),
    )
    connection.execute("UPDATE sessions SET updated = max(updated, ?) WHERE id = ?", (now, session))
    if any(node.kind == "assistant" for node in nodes):
        connection.execute("DELETE FROM drafts WHERE session = ? AND head = ?", (session, head))
    title = next(
        (title for node in nodes if node.kind == "user" and (title := title_of(node.content, secrets))), ""
    )
    if title:
        connection.execute("UPDATE sessions SET title = ? WHERE id = ? AND title = ''", (title, session))


def _check_name(connection: sqlite3.Connection, session: str, name: str) -> str:
    name = storable(name)
    if not name.strip() or len(name) > _MAX_HEAD_NAME or clean(name) != name or "\n" in name:
        raise StoreError(f"A branch needs a name of one line and at most {_MAX_HEAD_NAME} characters.")
    if any(head.name == name for head in heads(connection, session)):
        raise StoreError(f"Session {session} has a branch {name} already; choose another name.")
    return name


def fork(connection: sqlite3.Connection, session: str, node: int | None, name: str) -> BranchHead:
    """Create a branch that ends at a node of the session, or is empty.

    Raises `StoreError` for a node of another session and for an invalid name or one in use.
    """
    name = _check_name(connection, session, name)
    if node is not None:
        node_of(connection, session, node)
    head = BranchHead(session, name, node, time.time())
    connection.execute("INSERT INTO heads VALUES (?, ?, ?, ?)", (session, name, node, head.updated))
    connection.execute("UPDATE sessions SET updated = max(updated, ?) WHERE id = ?", (head.updated, session))
    return head


def use_head(connection: sqlite3.Connection, session: str, name: str) -> BranchHead:
    """Make a branch the most recently used one, so that the session opens with it. Raises `StoreError`."""
    node, _ = _tip(connection, session, name)
    newest = max(head.updated for head in heads(connection, session))
    # Strictly later than every other, also within one tick of the clock.
    now = max(time.time(), newest + 1e-3)
    connection.execute("UPDATE heads SET updated = ? WHERE session = ? AND name = ?", (now, session, name))
    return BranchHead(session, name, node, now)


def rename_head(connection: sqlite3.Connection, session: str, name: str, new: str) -> BranchHead:
    """Rename a branch. Raises `StoreError`, even for `main`, the first branch of every session."""
    node, _ = _tip(connection, session, name)
    if name == MAIN:
        raise StoreError(f"The branch {MAIN} keeps its name; fork it to have one of another name.")
    _check_name(connection, session, new)
    connection.execute("UPDATE heads SET name = ? WHERE session = ? AND name = ?", (new, session, name))
    connection.execute("UPDATE drafts SET head = ? WHERE session = ? AND head = ?", (new, session, name))
    for side in ("before", "after"):
        connection.execute(
            f"UPDATE operations SET head_{side} = ? WHERE session = ? AND head_{side} = ?",
            (new, session, name),
        )
    return BranchHead(session, new, node, time.time())


def drop_head(connection: sqlite3.Connection, session: str, name: str) -> None:
    """Remove a branch; its messages remain in the tree. Raises `StoreError`, even for `main`."""
    _tip(connection, session, name)
    if name == MAIN:
        raise StoreError(f"The branch {MAIN} stays, because sessions begin with it.")
    connection.execute("DELETE FROM heads WHERE session = ? AND name = ?", (session, name))
    connection.execute("DELETE FROM drafts WHERE session = ? AND head = ?", (session, name))


def heads(connection: sqlite3.Connection, session: str) -> list[BranchHead]:
    """Return the branches of a session, the most recently used first. Raises `StoreError`."""
    rows = connection.execute(
        "SELECT session, name, node, updated FROM heads WHERE session = ? ORDER BY updated DESC, name",
        (session,),
    )
    found = [BranchHead(*row) for row in rows]
    if not found:
        raise _no_head(connection, session, "")
    return found


def tip(connection: sqlite3.Connection, session: str, head: str) -> int | None:
    """Return the last node of a branch; None if it is empty. Raises `StoreError`."""
    return _tip(connection, session, head)[0]


def length(connection: sqlite3.Connection, session: str, head: str) -> int:
    """Return the number of nodes on the path from the root to the end of a branch. Raises `StoreError`."""
    return _tip(connection, session, head)[1]


def node_of(connection: sqlite3.Connection, session: str, node: int) -> Node:
    """Return one node of a session. Raises `StoreError` if it has no such node."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE id = ? AND session = ?", (node, session)
    ).fetchone()
    if row is None:
        raise StoreError(f"Session {clean(session)} has no message {node}.")
    return load(row)


def lineage(connection: sqlite3.Connection, node: int, count: int) -> list[Node]:
    """Return the node and its ancestors, at most `count` nodes, oldest first."""
    rows = connection.execute(
        f"{_LINE} SELECT {_COLUMNS} FROM line CROSS JOIN nodes ON nodes.id = line.node",
        {"node": node, "count": count},
    )
    # Each step adds one row, so the rows come newest first; ids grow along every path.
    with read_once(connection):
        return _in_order(rows)


def labels_of_line(
    connection: sqlite3.Connection, node: int, count: int
) -> list[tuple[int, int | None, str, str | None]]:
    """Return id, parent, kind and tool of the node and its ancestors, at most `count`, oldest first."""
    rows = connection.execute(
        f"{_LINE} SELECT id, parent, kind, iif(kind = 'tool', data ->> '$.tool', NULL) "
        "FROM line CROSS JOIN nodes ON nodes.id = line.node",
        {"node": node, "count": count},
    )
    with read_once(connection):
        return sorted(rows)


def by_ids(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Node]:
    """Return the existing nodes with these ids, sorted by id."""
    marks = ", ".join("?" * len(ids))
    return _in_order(connection.execute(f"SELECT {_COLUMNS} FROM nodes WHERE id IN ({marks})", tuple(ids)))


def offspring(connection: sqlite3.Connection, node: int, count: int) -> list[Node]:
    """Return at most `count` nodes that follow a node, oldest first. At a fork, the newest branch counts."""
    rows = connection.execute(
        "WITH RECURSIVE line (node, step) AS ("
        "  SELECT max(id), 1 FROM nodes WHERE parent = :node"
        "  UNION ALL"
        "  SELECT (SELECT max(id) FROM nodes WHERE parent = line.node), step + 1 FROM line"
        "  WHERE step < :count AND line.node IS NOT NULL"
        f") SELECT {_COLUMNS} FROM line CROSS JOIN nodes ON nodes.id = line.node",
        {"node": node, "count": count},
    )
    return _in_order(rows) if count > 0 else []


def batch(connection: sqlite3.Connection, session: str, after: int, count: int) -> list[Node]:
    """Return up to `count` nodes of a session after the id `after`, in writing order, from all branches."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE session = ? AND id > ? ORDER BY id LIMIT ?",
        (session, after, count),
    )
    return [load(row) for row in rows]


def _in_order(rows: Iterable[tuple[Any, ...]]) -> list[Node]:
    """Return the nodes in `rows`, sorted by id."""
    taken = list(rows)
    # Parsed as one text, so that equal field names share one string, which saves over half of the memory.
    data = json.loads(f"[{','.join([row[-1] for row in taken])}]")
    found = [_node(row, each) for row, each in zip(taken, data, strict=True)]
    found.sort(key=attrgetter("id"))
    return found


def load(row: tuple[Any, ...]) -> Node:
    """Return the node in a database row."""
    return _node(row, json.loads(row[-1]))


def _node(row: tuple[Any, ...], data: dict[str, Any]) -> Node:
    """Return a node from its row and data. Strings that many nodes share are kept in memory once."""
    id, session, parent, kind, created, content, _ = row
    return Node(id, intern(session), parent, intern(kind), created, content, data)


def dump(data: Mapping[str, Any]) -> str:
    """Return the JSON text of a node's data."""
    text = json.dumps(dict(data), ensure_ascii=False)
    return text if storable(text) == text else json.dumps(dict(data))
