"""Writes that wait at the same time: committed together, each for itself."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from agent.core.store.connection import HeadMoved
from agent.core.store.nodes import Session
from agent.core.store.store import Store
from agent.errors import StoreError


async def test_writes_that_wait_are_committed_at_once_and_in_their_order(store: Store) -> None:
    begun: list[str] = []
    await store.database.bare(lambda connection: connection.set_trace_callback(begun.append))
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(store.create_session(workspace="/w", model="m", title=f"session {number}"))
    await store.database.bare(lambda connection: connection.set_trace_callback(None))
    assert {each.title for each in await store.list_sessions()} == {f"session {n}" for n in range(20)}
    assert sum(each == "COMMIT" for each in begun) < 20


async def test_one_that_fails_takes_no_other_with_it(store: Store, session: Session) -> None:
    await store.append(session.id, "user", "first")
    results = await asyncio.gather(
        store.append(session.id, "user", "before"),
        store.append(session.id, "user", "never", expected=-1),
        store.append("20000101-000000-000000", "user", "nowhere"),
        store.append(session.id, "user", "after"),
        return_exceptions=True,
    )
    assert isinstance(results[1], HeadMoved)
    assert isinstance(results[2], StoreError)
    assert [node.content for node in await store.path(session.id)] == ["first", "before", "after"]


async def test_a_lock_that_stays_is_told_to_all_that_wait(path: Path) -> None:
    async with await Store.open(path, wait=0.1) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = [store.create_session(workspace="/w", model="m") for _ in range(5)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, StoreError) for each in results), results
        other.execute("ROLLBACK")
        other.close()
        await store.create_session(workspace="/w", model="m")
        assert len(await store.list_sessions()) == 1


async def test_what_is_written_along_comes_with_the_next_write_or_the_end(path: Path) -> None:
    async with await Store.open(path) as store:
        session = (await store.create_session(workspace="/w", model="m", events=10)).id
        store.give_back_events(session, 3, 10)
        assert await event_number(store, session) == 10
        await store.append(session, "user", "next")
        assert await event_number(store, session) == 3
        first = await store.reserve_events(session, 5)
        store.give_back_events(session, first, first + 4)
        store.database.write_along(lambda connection: connection.execute("no statement"))
    async with await Store.open(path) as store:
        assert first == 4 and await event_number(store, session) == 4


async def event_number(store: Store, session: str) -> int:
    def read(connection: sqlite3.Connection) -> int:
        (number,) = connection.execute("SELECT events FROM sessions WHERE id = ?", (session,)).fetchone()
        return number

    return await store.database.read(read)
