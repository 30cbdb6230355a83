"""A store with things to be found, of fixed ages, for searches and their pictures."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agent.core.store.store import Store
from agent.knowledge.recall.sources import Passage

NOW = 1_770_000_000.0
"""The time at which the ages are right, in seconds since the epoch."""
HOUR, DAY = 3_600, 86_400
SESSIONS = (
    ("20251101-101500-aaaaaa", "docs-site", "Notes of the meeting", 93 * DAY),
    ("20260125-091200-bbbbbb", "payments-api", "Which tests are slowest?", 8 * DAY),
    ("20260202-013000-cccccc", "payments-api", "Fix the rounding of JPY", 3 * HOUR),
)
"""Id, folder, title, and age in seconds."""
SAID = (
    (
        ("user", "Summarise the notes: 請求書の端数処理 and the café bill, which rounds up.", {}),
        ("assistant", "Three points: the bill, the rounding of taxes, and who brings cake [sic].", {}),
    ),
    (
        ("user", "Which tests are slowest?", {}),
        ("assistant", "", {"calls": [{"id": "1", "name": "terminal", "arguments": '{"command": "pytest"}'}]}),
        ("tool", '{"output": "12.1s test_rounding_of_totals\\n3.0s test_login"}', {"tool": "terminal"}),
        ("assistant", "`test_rounding_of_totals` takes 12 s, because it builds every currency.", {}),
    ),
    (
        ("user", "The invoice totals are off by a cent for JPY. Find out why and fix it.", {}),
        (
            "assistant",
            "They go through `money.round()`, which cuts after two digits whatever the currency.\n\n"
            "- JPY has none, so a half is lost\n- KWD has three, so the last one is lost",
            {},
        ),
        (
            "tool",
            '{"content": "def round(amount: Decimal, currency: str) -> Decimal:"}',
            {"tool": "read_file"},
        ),
        ("assistant", "Now rounding uses `Decimal`; all 214 tests pass.", {}),
    ),
)


async def filled(path: Path) -> Store:
    """An open store in the file `path`. The last session has a branch `floats` that went another way."""
    store = await Store.open(path)
    nodes: list[tuple[int, float]] = []
    for (id, folder, title, age), said in zip(SESSIONS, SAID, strict=True):
        session = await store.create_session(workspace=f"/home/ada/{folder}", model="demo", title=title)
        first = None
        for number, (kind, text, data) in enumerate(said):
            node = await store.append(session.id, kind, text, {"origin": "prompt", **data})  # type: ignore[arg-type]
            nodes.append((node.id, NOW - age + number))
            first = first or node
        if folder == "payments-api" and first is not None and "JPY" in title:
            await store.fork(session.id, first.id, "floats")
            node = await store.append(
                session.id, "assistant", "I would rather keep floats and round half even.", head="floats"
            )
            nodes.append((node.id, NOW - age + 60))
            await store.use_head(session.id, "main")
        _rename(path, session.id, id)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER IF EXISTS nodes_are_final")
        connection.executemany("UPDATE nodes SET created = ? WHERE id = ?", [(at, id) for id, at in nodes])
    return store


def _rename(path: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER IF EXISTS nodes_are_final")
        connection.execute("UPDATE sessions SET id = ? WHERE id = ?", (new, old))
        for table in ("nodes", "heads", "calls", "drafts"):
            connection.execute(f"UPDATE {table} SET session = ? WHERE session = ?", (new, old))


SKILL = "Write the test before the change, and see it fail."


class Shelf:
    """A source with fixed passages."""

    def __init__(self, name: str, *passages: Passage) -> None:
        self.name = name
        self._passages = passages

    async def passages(self) -> Sequence[Passage]:
        return self._passages


def shelves() -> list[Shelf]:
    """A skill, a learning and a note beside the messages."""
    return [
        Shelf("skills", Passage("test-first", f"{SKILL}\ntests", kind="bundled")),
        Shelf(
            "learnings",
            Passage("make tests", "tests hang\nUse a time limit.", created=NOW - 86_400, kind="learning"),
        ),
        Shelf(
            "memory", Passage("MEMORY.md", "The tests need Postgres.", created=NOW - 3_600, kind="project")
        ),
    ]
