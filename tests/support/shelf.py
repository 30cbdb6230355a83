"""A store with sessions of fixed ages, for pictures."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agent.core.store.store import Store

NOW = 1_770_000_000.0
"""The time at which the ages are right, in seconds since the epoch."""
MINUTE, HOUR, DAY = 60, 3_600, 86_400
SESSIONS = (
    (9 * DAY, "notes", "会議のメモ", "Summarise the notes of the meeting; 要約してください"),
    (
        DAY,
        "website",
        "A page about otters with rather more of a title than a list has room for",
        "Otters!",
    ),
    (5 * HOUR, "payments-api", "", "Which tests are slowest?"),
    (3 * MINUTE, "payments-api", "Fix the rounding of JPY", "The invoice totals are off by a cent."),
)
"""Age in seconds, folder, title, and what the person said."""
ANSWER = """\
They go through `money.round()`, which cuts after two digits whatever the currency.

- JPY has none, so a half is lost
- KWD has three, so the last one is lost"""


async def filled(path: Path, sessions: Sequence[tuple[int, str, str, str]] = SESSIONS) -> Store:
    """An open store in the file `path`; the session used last is the last of `sessions`."""
    store = await Store.open(path)
    ids: list[str] = []
    for _age, folder, title, said in sessions:
        session = await store.create_session(workspace=f"/home/ada/{folder}", model="demo", title=title)
        await store.append(session.id, "user", said, {"origin": "prompt"})
        await store.append(session.id, "tool", "{}", {"tool": "search", "call": "c1"})
        await store.append(session.id, "assistant", ANSWER, {})
        ids.append(session.id)
    with closing(sqlite3.connect(path)) as connection, connection:
        for id, (age, *_rest) in zip(ids, sessions, strict=True):
            connection.execute("UPDATE sessions SET updated = ? WHERE id = ?", (NOW - age, id))
    return store
