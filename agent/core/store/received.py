"""Records of messages received by messengers, each of which becomes a node exactly once."""

from __future__ import annotations

import sqlite3
from typing import Any

from agent.errors import StoreError

RECEIVED = "received"
"""The key in a user node's data for the row of the received message."""


def mark_taken(connection: sqlite3.Connection, row: Any, session: str, node: int) -> None:
    """Record that a received message has become a node. Raises `StoreError` if it already was one.

    If its chat has moved to another session meanwhile, it is marked as done, because no chat waits for a
    reply.
    """
    changed = connection.execute(
        "UPDATE received SET state = iif(EXISTS (SELECT 1 FROM gateway_places WHERE session = ?1), "
        "'taken', 'done'), session = ?1, node = ?2 WHERE id = ?3 AND node IS NULL",
        (session, node, row),
    ).rowcount
    if changed != 1:
        raise StoreError("This message was taken already; nothing is done twice.")


def handed_texts(connection: sqlite3.Connection, session: str) -> list[str]:
    """Return the texts that were passed to a session without becoming nodes; they will be passed again."""
    rows = connection.execute(
        "SELECT text FROM received WHERE session = ? AND node IS NULL AND state IN ('handed', 'waiting')",
        (session,),
    )
    return [text for (text,) in rows]
