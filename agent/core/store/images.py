"""Deletion of image files when the last messages that refer to them are deleted with their sessions.

One file serves every message with the same image, so a file is deleted only if no message of any session
refers to it. A file that was stored again after the deleted message is kept, because its new message may not
be stored yet. Files to which no message ever referred are deleted after a day.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping

from agent.core.attachments import AttachmentStore, attachments_of
from agent.core.store.connection import Database

_BATCH = 20_000
"""The number of ids searched in one transaction, after which a writer gets its turn."""
_SENT = """kind IN ('user', 'notice') AND data LIKE '%"attachments"%'"""


def discarded_images(connection: sqlite3.Connection) -> dict[str, float]:
    """Return the images of discarded sessions: by SHA-256, the time of their last use (seconds since the
    epoch).
    """
    rows = connection.execute(
        "SELECT created, data FROM discarded CROSS JOIN nodes ON nodes.session = discarded.session "
        f"WHERE {_SENT} ORDER BY created"
    )
    return {sha256: created for created, data in rows for sha256 in _images(data)}


def in_use(connection: sqlite3.Connection, after: int) -> tuple[set[str], int | None]:
    """Return the images in the messages after the id `after`, and the id at which to continue, or None."""
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM nodes").fetchone()
    rows = connection.execute(
        f"SELECT data FROM nodes WHERE id > ? AND id <= ? AND {_SENT} "
        "AND session NOT IN (SELECT session FROM discarded)",
        (after, after + _BATCH),
    )
    used = {sha256 for (data,) in rows for sha256 in _images(data)}
    return used, after + _BATCH if after + _BATCH < last else None


async def sweep(database: Database, kept: AttachmentStore, gone: Mapping[str, float]) -> None:
    """Delete the files to which only messages of `gone` referred, and old files without any message.

    `gone` comes from `discarded_images`.
    """
    if not await asyncio.to_thread(kept.any):
        return
    wanted: set[str] = set()
    after: int | None = 0
    while after is not None:
        used, after = await database.read(lambda c, after=after: in_use(c, after))
        wanted |= used
    await asyncio.to_thread(kept.sweep, wanted, gone)


def _images(data: str) -> set[str]:
    return {each.sha256 for each in attachments_of(json.loads(data))}
