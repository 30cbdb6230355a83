"""Each event of a session has a number, and none is given twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.core.store.store import Store
from agent.session.conversation.event_numbers import EventNumbers
from tests.support.engines import bench
from tests.support.replies import by_step, say

_GIVEN_UNTIL_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from agent.session.conversation.event_numbers import EventNumbers
from agent.core.store.store import Store

async def main():
    store = await Store.open(Path(sys.argv[1]))
    numbers = await EventNumbers.open(store, sys.argv[2], 20)
    for count in range(int(sys.argv[3])):
        print(numbers.next(), flush=True)
        if not count % 5:
            await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_numbers_begin_at_one_and_go_on_when_the_session_is_resumed(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("one"), say("two")])) as made:
        await made.turn("first")
        of_first = len(made.events)
        await made.turn("second", resume_last=True)
        assert [event.seq for event in made.events] == list(range(1, len(made.events) + 1))
        assert made.events[of_first].type == "session_opened"


@pytest.mark.thorough
async def test_two_processes_on_one_session_never_give_the_same_number(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("one"), say("two"), say("three")])) as made:
        async with made.engine() as first:
            await first.run("first")
            async with made.engine(resume_last=True) as second:
                await second.run("in the second window")
            await first.run("in the first window")
        numbers = [event.seq for event in made.events]
        assert 0 not in numbers
        assert len(set(numbers)) == len(numbers)


async def test_numbers_go_on_in_order_when_another_process_took_the_next_block(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        session = (await store.create_session(workspace="/project", model="m")).id
        first = await EventNumbers.open(store, session, 10)
        second = await EventNumbers.open(store, session, 10)
        given: list[int] = []
        for _ in range(8):
            given += [first.next(), second.next()]
        await first.close()
        await second.close()
        third = await EventNumbers.open(store, session, 10)
        given.append(third.next())
        await third.close()
    assert len(set(given)) == len(given)
    for numbers in (given[0:16:2], given[1:16:2]):
        assert numbers == sorted(numbers)
    assert given[-1] == max(given)


@pytest.mark.thorough
async def test_a_killed_process_leaves_a_gap_and_no_number_twice(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with await Store.open(file) as store:
        session = (await store.create_session(workspace="/project", model="m")).id
    given: list[int] = []
    for count in (1, 7, 33):
        done = subprocess.run(
            [sys.executable, "-c", _GIVEN_UNTIL_KILLED, str(file), session, str(count)],
            capture_output=True,
            text=True,
            check=False,
        )
        numbers = [int(line) for line in done.stdout.split()]
        assert len(numbers) == count, done.stderr
        given += numbers
    assert given == sorted(set(given))


async def test_a_session_that_is_gone_still_gets_numbers(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        numbers = await EventNumbers.open(store, "20260101-000000-none", 4)
        assert [numbers.next() for _ in range(9)] == list(range(1, 10))
        await numbers.close()
