"""Requests that older versions wrote down only in the messages they led to, counted when somebody asks.

The newest are counted first, so whoever asks for the last days does not wait for
the years before. Each piece is a short transaction that also notes how far it got.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from agent.core.store.connection import Database
from agent.session.spending.request_table import MAIN, SIDE, Payer, RequestAmount, State, add, agent_name

BATCH = 10_000
"""Nodes looked at in one transaction: a quarter of a second of work, for one wait for the disk."""

NO_PROCESS = 0
UNPAID = "demo"
"""The scripted model, which asks nobody."""

_FOUND = (
    "SELECT id, session, created, json_extract(data, '$.model'), json_extract(data, '$.usage'), "
    "json_extract(data, '$.aside') FROM nodes WHERE kind = 'assistant' AND json_valid(data) AND "
)

Found = tuple[Payer, RequestAmount, State, float]


async def catch_up(database: Database, since: float = 0.0) -> None:
    """Count what is still owed, back to a moment at least. Raises `StoreError`."""
    while True:
        reached = await database.write(count_batch)
        if reached is None or reached < since:
            return


def owed(connection: sqlite3.Connection) -> int:
    """Nodes up to this one may hold requests that were not counted yet; 0 when none is owed."""
    (last,) = connection.execute("SELECT max(last) FROM requests_owed").fetchone()
    return last or 0


def count_batch(connection: sqlite3.Connection, size: int = BATCH) -> float | None:
    """Count the newest nodes that are owed. When the oldest of them was written; None: none is owed."""
    last = owed(connection)
    if last <= 0:
        return None
    first = max(last - size, 0)
    for payer, amount, state, created in _requests(connection, "id > ? AND id <= ?", (first, last)):
        add(connection, payer, amount, state, created, NO_PROCESS)
    (oldest,) = connection.execute(
        "SELECT min(created) FROM nodes WHERE id > ? AND id <= ?", (first, last)
    ).fetchone()
    connection.execute("DELETE FROM requests_owed")
    if first:
        connection.execute("INSERT INTO requests_owed VALUES (?)", (first,))
    return float("inf") if oldest is None else oldest


def owed_of(connection: sqlite3.Connection, session: str) -> list[Found]:
    """The requests of a session and its agents that are still owed."""
    family = "(SELECT ? UNION SELECT id FROM sessions WHERE parent = ?)"
    where = f"session IN {family} AND id <= ?"
    return list(_requests(connection, where, (session, session, owed(connection))))


def _requests(connection: sqlite3.Connection, where: str, values: tuple[int | str, ...]) -> Iterator[Found]:
    whose: dict[str, tuple[str, str, str]] = {}
    for _, session, created, model, usage, aside in connection.execute(_FOUND + where, values).fetchall():
        if usage is None and aside is None:
            continue
        if session not in whose:
            whose[session] = _owner(connection, session)
        root, project, agent = whose[session]
        for each, asked, used in ((agent, model, _json(usage)), *_beside(_json(aside))):
            if isinstance(used, Mapping) and asked != UNPAID:
                payer = Payer(session=root, project=project, agent=each, model=str(asked or ""))
                yield payer, *_amount(used), created


def _beside(aside: Any) -> Iterator[tuple[str, Any, Any]]:
    for each in aside if isinstance(aside, list) else ():
        if isinstance(each, Mapping):
            yield SIDE, each.get("model"), each.get("usage")


def _owner(connection: sqlite3.Connection, session: str) -> tuple[str, str, str]:
    """Session of the session's own agent, project, and agent of a session; empty if it was deleted."""
    row = connection.execute("SELECT parent, workspace FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        return "", "", MAIN
    parent, project = row
    if parent is None:
        return session, project, MAIN
    named = connection.execute(
        "SELECT json_extract(data, '$.task.name') FROM nodes WHERE session = ? AND kind = 'notice' "
        "AND json_valid(data) AND json_extract(data, '$.kind') = 'subagent' ORDER BY id LIMIT 1",
        (session,),
    ).fetchone()
    return parent, project, agent_name(str((named and named[0]) or ""))


def _amount(usage: Mapping[str, Any]) -> tuple[RequestAmount, State]:
    counts = {name: usage.get(name) for name in ("input", "output", "cached")}
    whole = {name: count for name, count in counts.items() if isinstance(count, int)}
    known = "input" in whole and "output" in whole
    return RequestAmount(**whole), "counted" if known else "assumed"


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
