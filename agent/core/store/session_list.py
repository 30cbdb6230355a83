"""The list of sessions: create, find, list and change sessions. Functions on a connection."""

from __future__ import annotations

import difflib
import sqlite3
import time

from agent.core.store.connection import NoSession
from agent.core.store.nodes import MAIN, Session, new_session_id, storable
from agent.errors import StoreError
from tools.text.safe_text import clean

_SELECT = (
    "SELECT sessions.id, title, workspace, model, sessions.created, sessions.updated, heads.node, "
    "sessions.parent, archived, coalesce(nodes.depth, 0) FROM sessions "
    f"LEFT JOIN heads ON heads.session = sessions.id AND heads.name = '{MAIN}' "
    "LEFT JOIN nodes ON nodes.id = heads.node "
)
_NEWEST = "ORDER BY sessions.updated DESC, sessions.id DESC"
_NEAR = 5
_COMPARED = 500
"""The number of newest sessions whose names are compared to suggest one."""

_MAX_TITLE = 200


def _load(row: tuple) -> Session:
    return Session(*row[:8], archived=bool(row[8]), length=row[9])


def create(
    connection: sqlite3.Connection,
    workspace: str,
    model: str,
    title: str,
    parent: str | None,
    events: int = 0,
) -> Session:
    """Create a session with an empty branch `main`, whose first `events` event numbers are reserved.

    Raises `StoreError` if `parent` does not exist.
    """
    if parent is not None:
        get(connection, parent)
    now = time.time()
    values = (storable(tidy_title(title)), storable(workspace), storable(model), now, now, parent, events)
    while True:
        name = new_session_id(now)
        try:
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)", (name, *values))
            break
        except sqlite3.IntegrityError:
            continue  # another session of this second got the same number
    connection.execute("INSERT INTO heads VALUES (?, ?, NULL, ?)", (name, MAIN, now))
    return get(connection, name)


def get(connection: sqlite3.Connection, session: str) -> Session:
    """Return the session with exactly this id. Raises `NoSession`."""
    row = connection.execute(f"{_SELECT} WHERE sessions.id = ?", (storable(session),)).fetchone()
    if row is None:
        raise NoSession(f"There is no session {clean(session)}; `hermes sessions list` shows them all.")
    return _load(row)


def find(connection: sqlite3.Connection, text: str) -> Session:
    """Find a session by its id, by the unique beginning of an id, or by title (the newest with that title).

    Raises `StoreError` whose text names similar sessions.
    """
    text = storable(text.strip())
    row = connection.execute(f"{_SELECT} WHERE sessions.id = ?", (text,)).fetchone()
    if row is not None:
        return _load(row)
    begun = _with_prefix(connection, text) if text else []
    if len(begun) == 1:
        return begun[0]
    row = connection.execute(f"{_SELECT} WHERE title = ? {_NEWEST} LIMIT 1", (text,)).fetchone()
    if row is not None:
        return _load(row)
    shown = clean(text)[:80]
    if begun:
        names = ", ".join(session.id for session in begun[:_NEAR])
        raise StoreError(f"Several sessions begin with {shown}: {names}; write more of the id.")
    raise StoreError(f"There is no session {shown!r}{_near(connection, text)}.")


def _with_prefix(connection: sqlite3.Connection, text: str) -> list[Session]:
    # A range instead of LIKE: it uses the index, and `%` and `_` have no special meaning.
    rows = connection.execute(
        f"{_SELECT} WHERE sessions.id >= ? AND sessions.id < ? {_NEWEST} LIMIT ?",
        (text, text + "\U0010ffff", _NEAR + 1),
    )
    return [_load(row) for row in rows]


def _near(connection: sqlite3.Connection, text: str) -> str:
    sessions = newest(connection, _COMPARED, 0, None, children=True, archived=True)
    if not sessions:
        return "; none was saved yet"
    by_name = {
        name.lower(): session for session in reversed(sessions) for name in (session.id, session.title)
    }
    wanted = text.lower()
    close = [name for name in by_name if wanted and wanted in name][:_NEAR]
    close = close or difflib.get_close_matches(wanted[:200], by_name, n=_NEAR, cutoff=0.5)
    found = {by_name[name].id: by_name[name] for name in close}
    if not found:
        return "; `hermes sessions list` shows them all"
    named = ", ".join(f"{session.id} ({clean(session.title)})" for session in found.values())
    return f"; near it: {named}"


def newest(
    connection: sqlite3.Connection,
    limit: int,
    offset: int,
    workspace: str | None,
    *,
    children: bool = False,
    archived: bool = False,
    said: bool = False,
) -> list[Session]:
    """Return sessions, the most recently used first.

    `children` and `archived` include subagents' and archived sessions; `said` leaves out those that were only
    opened and have at most a system prompt.
    """
    rows = connection.execute(
        f"{_SELECT} WHERE (:children OR sessions.parent IS NULL) AND (:archived OR NOT archived) "
        "AND (:workspace IS NULL OR workspace = :workspace) "
        "AND (NOT :said OR title <> '' OR coalesce(nodes.depth, 0) > 1) "
        f"{_NEWEST} LIMIT :limit OFFSET :offset",
        {
            "children": children,
            "archived": archived,
            "said": said,
            "workspace": None if workspace is None else storable(workspace),
            "limit": bound_count(limit),
            "offset": bound_count(offset),
        },
    )
    return [_load(row) for row in rows]


def children(connection: sqlite3.Connection, session: str) -> list[Session]:
    """Return the sessions of a session's subagents, oldest first."""
    rows = connection.execute(
        f"{_SELECT} WHERE sessions.parent = ? ORDER BY sessions.created, sessions.id", (session,)
    )
    return [_load(row) for row in rows]


def totals(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the number of sessions and the number of nodes. Reads a whole index."""
    (sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    (nodes,) = connection.execute("SELECT count(*) FROM nodes").fetchone()
    return sessions, nodes


def change(connection: sqlite3.Connection, session: str, column: str, value: str | int) -> Session:
    """Set title, model, workspace or archived flag of a session. Raises `NoSession` if it does not exist."""
    assert column in ("title", "model", "workspace", "archived")
    get(connection, session)
    connection.execute(f"UPDATE sessions SET {column} = ? WHERE id = ?", (value, session))
    return get(connection, session)


def tidy_title(title: str) -> str:
    """Return a title as one line without control characters. Raises `StoreError` if it is too long."""
    line = " ".join(storable(clean(title)).split())
    if len(line) > _MAX_TITLE:
        raise StoreError(f"A title has at most {_MAX_TITLE} characters; this one has {len(line)}.")
    return line


def bound_count(number: int) -> int:
    """Return `number` limited to the range from 0 to 2**31, which SQLite accepts for limits and offsets."""
    return max(0, min(number, 2**31))
