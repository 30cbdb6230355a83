"""Deletion of a session, so that its text also disappears from the database file.

The session is removed in one transaction. Its nodes follow in batches. Then the index is merged, because FTS5
only marks deleted words. Each step is a short transaction, so that other writers do not wait long. A step
that was not reached is done at the next deletion.
"""

from __future__ import annotations

import sqlite3

from agent.core.store import session_list

_BATCH = 200
_PAGES = 200
"""The number of index pages merged per step."""


def discard(connection: sqlite3.Connection, session: str) -> list[str]:
    """Remove a session and its subagents' sessions; mark their nodes for deletion; return the sessions' ids.

    Raises `NoSession` if it does not exist.
    """
    session_list.get(connection, session)
    rows = connection.execute(
        "WITH RECURSIVE family (id) AS (SELECT ? UNION SELECT sessions.id FROM sessions "
        "JOIN family ON sessions.parent = family.id) SELECT id FROM family",
        (session,),
    ).fetchall()
    for row in rows:
        connection.execute("INSERT OR IGNORE INTO discarded VALUES (?)", row)
        connection.execute("DELETE FROM sessions WHERE id = ?", row)
        for table in ("heads", "drafts", "calls", "marks", "operations"):
            connection.execute(f"DELETE FROM {table} WHERE session = ?", row)
        # The cost remains recorded, without the session it belonged to.
        connection.execute(
            "UPDATE requests SET session = '', project = '', "
            "agent = CASE WHEN agent IN ('main', 'side') THEN agent ELSE 'agent:' END WHERE session = ?",
            row,
        )
    return [name for (name,) in rows]


def purge(connection: sqlite3.Connection) -> bool:
    """Delete one batch of nodes of discarded sessions; return False if no such session is left."""
    row = connection.execute("SELECT session FROM discarded LIMIT 1").fetchone()
    if row is None:
        return False
    nodes = connection.execute("SELECT id FROM nodes WHERE session = ? LIMIT ?", (row[0], _BATCH)).fetchall()
    for index in ("words", "trigrams"):
        connection.executemany(
            f"INSERT INTO {index} ({index}, rowid, body) "
            "SELECT 'delete', id, body FROM searchable WHERE id = ?",
            nodes,
        )
    connection.executemany("DELETE FROM nodes WHERE id = ?", nodes)
    if not nodes:
        connection.execute("DELETE FROM discarded WHERE session = ?", row)
    return True


def merge(connection: sqlite3.Connection, *, first: bool) -> bool:
    """Merge some pages of the indexes into one segment; return False if nothing is left to merge.

    The first step passes a negative count to FTS5, which begins a merge of everything; later steps continue
    it. Fewer than two changed rows mean that nothing was done (FTS5 documentation, "merge").
    """
    changed = False
    for index in ("words", "trigrams"):
        before = connection.total_changes
        connection.execute(
            f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (-_PAGES if first else _PAGES,)
        )
        changed = changed or connection.total_changes - before >= 2
    return changed
