"""Numbers of a session's events, so that none is ever given twice. Plain functions on a connection."""

from __future__ import annotations

import sqlite3


def reserve(connection: sqlite3.Connection, session: str, count: int) -> int:
    """Set `count` numbers aside for one process; the first of them. 1 if the session is gone."""
    row = connection.execute(
        "UPDATE sessions SET events = events + ? WHERE id = ? RETURNING events", (count, session)
    ).fetchone()
    return row[0] - count + 1 if row else 1


def give_back(connection: sqlite3.Connection, session: str, last: int, reserved: int) -> None:
    """Free the numbers after `last`, unless another process has reserved some after `reserved` since."""
    connection.execute(
        "UPDATE sessions SET events = ? WHERE id = ? AND events = ?", (last, session, reserved)
    )
