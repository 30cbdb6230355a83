"""Import of sessions from a file written by `hermes sessions export`, or of the same format."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agent.core.store.node_tree import dump
from agent.core.store.nodes import KINDS, MAIN, new_session_id, searchable, storable, title_of
from agent.errors import StoreError
from tools.text.safe_text import clean

_HIGHEST_ID = 2**53
"""The limit on ids: other programs that read JSON cannot represent larger whole numbers exactly."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as read from a file."""

    id: int
    parent: int | None
    kind: str
    created: float
    content: str
    data: Mapping[str, Any]


@dataclass(slots=True)
class SessionRecord:
    """A session as read from a file."""

    name: str
    nodes: list[NodeRecord] = field(default_factory=list)
    heads: dict[str, int] = field(default_factory=dict)
    """The id of the last node of each branch."""
    title: str = ""
    workspace: str = ""
    model: str = ""
    left: list[str] = field(default_factory=list)
    """Descriptions of what could not be read, for the user; they are not stored."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """The result of importing one session."""

    name: str
    """The session's id in the file."""
    session: str
    """The session's id in this store."""
    nodes: Mapping[int, int]
    """The new id of each node, by its id in the file."""


def parse_sessions(lines: Iterable[str]) -> list[SessionRecord]:
    """Return the sessions in a file of JSON lines. Raises `StoreError` that names the line."""
    found: dict[str, SessionRecord] = {}
    known: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"Line {number} is not JSON ({error}); nothing was imported.") from None
        if not isinstance(record, dict):
            raise _wrong(number, "is not a JSON object")
        name = record.get("session")
        if not isinstance(name, str) or not name.strip() or clean(name) != name or len(name) > 200:
            raise _wrong(number, "names no session")
        session = found.setdefault(name, SessionRecord(storable(name)))
        node = _node(number, record, session, known)
        known[node.id] = name
        session.nodes.append(node)
        _describe(number, record, session, node)
    if not found:
        raise StoreError("The file holds no messages; nothing was imported.")
    for session in found.values():
        session.heads.setdefault(MAIN, session.nodes[-1].id)
    return list(found.values())


def _node(
    number: int, record: Mapping[str, Any], session: SessionRecord, known: Mapping[int, str]
) -> NodeRecord:
    id, parent, kind = record.get("id"), record.get("parent"), record.get("kind")
    created, content, data = record.get("created"), record.get("content"), record.get("data", {})
    if not isinstance(id, int) or not _is_id(id):
        raise _wrong(number, "has no whole number as id")
    if id in known:
        raise _wrong(number, f"has the id {id}, which stood before")
    if parent is not None and not (_is_id(parent) and known.get(parent) == session.name):
        raise _wrong(number, "follows a message that does not stand before it in its session")
    if kind not in KINDS:
        raise _wrong(number, f"has no kind of {', '.join(sorted(KINDS))}")
    if not isinstance(created, (int, float)) or not _is_time(created):
        raise _wrong(number, "has no time (created, in seconds since the epoch)")
    if not isinstance(content, str) or not isinstance(data, dict):
        raise _wrong(number, "needs a text as content and an object as data")
    return NodeRecord(id, parent, kind, float(created), content, data)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _HIGHEST_ID


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 <= value < _HIGHEST_ID


def _describe(number: int, record: Mapping[str, Any], session: SessionRecord, node: NodeRecord) -> None:
    heads = record.get("heads", [])
    if not isinstance(heads, list) or not all(isinstance(head, str) and head.strip() for head in heads):
        raise _wrong(number, "has heads that are not names of branches")
    for head in heads:
        session.heads[storable(clean(head))[:100]] = node.id
    for name in ("title", "workspace", "model"):
        if isinstance(value := record.get(name), str) and not getattr(session, name):
            setattr(session, name, " ".join(storable(clean(value)).split())[:200])


def _wrong(number: int, what: str) -> StoreError:
    return StoreError(f"Line {number} {what}; nothing was imported.")


def known_names(connection: sqlite3.Connection, sessions: Iterable[SessionRecord]) -> list[str]:
    """Return the ids of sessions in the file that this store already uses, even for a session that is being
    deleted.
    """
    taken = {
        name for (name,) in connection.execute("SELECT id FROM sessions UNION SELECT session FROM discarded")
    }
    return [session.name for session in sessions if session.name in taken]


def known_sizes(
    connection: sqlite3.Connection, sessions: Iterable[SessionRecord]
) -> dict[str, tuple[float, int]]:
    """Return (time of the last change, number of nodes) of those sessions that this store has, by id."""
    query = (
        "SELECT updated, (SELECT count(*) FROM nodes WHERE session = sessions.id) FROM sessions WHERE id = ?"
    )
    found: dict[str, tuple[float, int]] = {}
    for name in known_names(connection, sessions):
        row = connection.execute(query, (name,)).fetchone()
        found[name] = (float(row[0]), int(row[1])) if row else (math.inf, 0)
    return found


def insert(
    connection: sqlite3.Connection,
    session: SessionRecord,
    *,
    copied: bool,
    secrets: Mapping[str, str] | None = None,
) -> ImportedSession:
    """Write one session. With `copied` it gets a new id. Its nodes keep their ids if all of these are higher
    than any id in the store and increase.
    """
    name = new_session_id(time.time()) if copied else session.name
    while copied and connection.execute("SELECT 1 FROM sessions WHERE id = ?", (name,)).fetchone():
        name = new_session_id(time.time())
    first, last = session.nodes[0], max(node.created for node in session.nodes)
    title = session.title or next(
        (
            title
            for node in session.nodes
            if node.kind == "user" and (title := title_of(node.content, secrets))
        ),
        "",
    )
    connection.execute(
        "INSERT INTO sessions (id, title, workspace, model, created, updated) VALUES (?, ?, ?, ?, ?, ?)",
        (name, storable(title), session.workspace, session.model, first.created, last),
    )
    ids = _ids(connection, session)
    depths: dict[int, int] = {}
    for node in session.nodes:
        depths[node.id] = 1 + (depths[node.parent] if node.parent is not None else 0)
        content = storable(node.content)
        text = storable(searchable(node.kind, content, node.data))
        parent = None if node.parent is None else ids[node.parent]
        values = (ids[node.id], name, parent, depths[node.id], node.kind, node.created, len(text))
        connection.execute(
            "INSERT INTO nodes (id, session, parent, depth, kind, created, size, data, content, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, dump(_with_ids(node, ids)), content, None if text and text == content else text),
        )
        if text:
            for index in ("words", "trigrams"):
                connection.execute(f"INSERT INTO {index} (rowid, body) VALUES (?, ?)", (ids[node.id], text))
    for head, node in session.heads.items():
        connection.execute("INSERT INTO heads VALUES (?, ?, ?, ?)", (name, head, ids[node], last))
    return ImportedSession(session.name, name, ids)


def _with_ids(node: NodeRecord, ids: Mapping[int, int]) -> Mapping[str, Any]:
    """Return a node's data with the new ids of other nodes that it names. Only compactions name nodes."""
    start = node.data.get("from")
    if node.kind != "compaction" or not isinstance(start, int) or ids[node.id] == node.id:
        return node.data
    later = [id for id in ids if id >= start]
    changed: dict[str, Any] = {"from": ids[min(later)] if later else ids[node.id] + start - node.id}
    for name in ("nodes", "pinned"):
        if isinstance(numbers := node.data.get(name), list):
            changed[name] = [ids[number] for number in numbers if number in ids]
    if isinstance(shortened := node.data.get("shortened"), dict):
        known = {str(old): new for old, new in ids.items()}
        changed["shortened"] = {str(known[old]): text for old, text in shortened.items() if old in known}
    return {**node.data, **changed}


def _ids(connection: sqlite3.Connection, session: SessionRecord) -> dict[int, int]:
    """Return an unused id for each id in the file: the same ones if possible, otherwise the next free ones.

    The ids increase along every path.
    """
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'nodes'").fetchone()
    highest = row[0] if row else 0
    given = [node.id for node in session.nodes]
    if given[0] > highest and all(one < two for one, two in pairwise(given)):
        return {each: each for each in given}
    return {each: highest + count for count, each in enumerate(given, 1)}
