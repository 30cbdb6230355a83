"""Writes that wait at the same time: committed together, each for itself."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from agent.errors import StoreError
from agent.store.faults import HeadMoved
from agent.store.nodes import Session
from agent.store.store import Store


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
