from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from agent.core.store.nodes import Session
from agent.core.store.store import Store

ROOT = Path(__file__).resolve().parents[4]


async def writer(path: Path, session: Session, count: int, label: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.agent.core.store.writer",
        str(path),
        session.id,
        str(count),
        label,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
    )


def check(path: Path) -> None:
    """The file is sound, and both indexes hold exactly what the nodes say."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for index in ("words", "trigrams"):
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
    connection.close()


async def test_two_processes_append_a_thousand_messages_without_a_lock_error(
    path: Path, store: Store, session: Session
) -> None:
    writers = [await writer(path, session, 500, label) for label in ("one", "two")]
    outputs = await asyncio.gather(*(each.communicate() for each in writers))
    assert [(each.returncode, errors) for each, (_, errors) in zip(writers, outputs, strict=True)] == [
        (0, b""),
        (0, b""),
    ]
    nodes = await store.path(session.id)
    assert len(nodes) == 1_000
    for label in ("one", "two"):
        numbers = [int(node.content.split()[1]) for node in nodes if node.content.startswith(label)]
        assert numbers == list(range(500))
    acknowledged = {int(line) for output, _ in outputs for line in output.split()}
    assert acknowledged == {node.id for node in nodes}
    check(path)


@pytest.mark.parametrize("kills", [8, pytest.param(60, marks=pytest.mark.thorough)])
async def test_a_writer_killed_at_any_moment_loses_no_acknowledged_message(
    path: Path, store: Store, session: Session, kills: int
) -> None:
    chance = random.Random(20)
    acknowledged: set[int] = set()
    for turn in range(kills):
        child = await writer(path, session, -1, f"turn {turn}")
        assert child.stdout is not None
        # The first line tells that it writes; the moment after it is random.
        acknowledged.add(int(await child.stdout.readline()))
        await asyncio.sleep(0.03 * (turn + chance.random()) / kills)
        child.send_signal(signal.SIGKILL)
        output, _ = await child.communicate()
        # A line cut by the kill was still acknowledged, but its number cannot be read.
        acknowledged |= {int(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")}
        nodes = await store.path(session.id)
        assert acknowledged <= {node.id for node in nodes}
        assert [node.parent for node in nodes] == [None, *(node.id for node in nodes[:-1])]
    check(path)


@pytest.mark.thorough
async def test_processes_that_open_a_new_store_at_once_agree_on_it(folder: Path) -> None:
    path = folder / "home" / "state.db"
    script = (
        "import asyncio, sys; from pathlib import Path; from agent.core.store.store import Store\n"
        "async def main():\n"
        "    async with await Store.open(Path(sys.argv[1])) as store:\n"
        "        await store.create_session(workspace='/w', model='m')\n"
        "asyncio.run(main())"
    )
    children = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(path), stderr=PIPE, cwd=ROOT)
        for _ in range(4)
    ]
    errors = [(await child.communicate())[1] for child in children]
    assert errors == [b""] * 4
    async with await Store.open(path) as store:
        assert len(await store.list_sessions()) == 4
