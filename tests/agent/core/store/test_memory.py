"""What a long session takes of memory once it is open: its text, and little beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.core.store.connection import read_once
from agent.core.store.nodes import NewNode
from agent.core.store.store import Store

MESSAGES, LENGTH = 8_000, 1_000
CHILD = """
import asyncio, gc, sys
from pathlib import Path
from agent.core.store.store import Store

def resident():
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024

async def main():
    store = await Store.open(Path(sys.argv[1]))
    await store.heads(sys.argv[2])
    gc.collect()
    before = resident()
    path = await store.path(sys.argv[2])
    gc.collect()
    print(len(path), resident() - before)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_reading_a_long_path_leaves_no_pages_of_the_file_behind(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    session = await store.create_session(workspace="/w", model="m")
    for at in range(0, MESSAGES, 1_000):
        texts = [f"{number} ".ljust(LENGTH, "x") for number in range(at, at + 1_000)]
        await store.append_many(session.id, [NewNode("user", text) for text in texts])
    await store.close()
    child = [sys.executable, "-c", CHILD, str(tmp_path / "state.db"), session.id]
    done = subprocess.run(child, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4])
    count, grown = map(int, done.stdout.split())
    assert count == MESSAGES
    assert grown < 1.5 * MESSAGES * LENGTH, f"{grown:,} bytes for {MESSAGES * LENGTH:,} of text"


async def test_the_cache_of_pages_is_as_it_was_after_a_reading(store: Store) -> None:
    def sizes(connection):
        def size() -> int:
            return connection.execute("PRAGMA cache_size").fetchone()[0]

        before = size()
        with read_once(connection):
            within = size()
        return before, within, size()

    before, within, after = await store.database.read(sizes)
    assert before == after and abs(within) < abs(before)
