"""The seam between messages of messengers and nodes: one becomes the other in one transaction, once."""

from __future__ import annotations

import sqlite3
from typing import Any

from agent.errors import StoreError

RECEIVED = "received"
"""The key of a user node under which the row of its message stands."""


def mark_taken(connection: sqlite3.Connection, row: Any, session: str, node: int) -> None:
    """Note that a message has become a node. Raises `StoreError` if it has become one before."""
    changed = connection.execute(
        "UPDATE received SET state = 'taken', session = ?, node = ? WHERE id = ? AND node IS NULL",
        (session, node, row),
    ).rowcount
    if changed != 1:
        raise StoreError("This message was taken already; nothing is done twice.")


def handed_texts(connection: sqlite3.Connection, session: str) -> list[str]:
    """Texts that were handed to a session and are not committed: their rows bring them again."""
    rows = connection.execute(
        "SELECT text FROM received WHERE session = ? AND node IS NULL AND state IN ('handed', 'waiting')",
        (session,),
    )
    return [text for (text,) in rows]
