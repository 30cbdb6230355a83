from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import sqlite3
import stat
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.core.store import schema
from agent.core.store.connection import DamagedStore, Database
from agent.core.store.nodes import NewNode
from agent.core.store.store import Store
from agent.errors import StoreError

ROOT = Path(__file__).resolve().parents[4]


def snapshot(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file with its content, mode and time."""
    return {
        path.name: (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            stat.S_IMODE(path.stat().st_mode),
            path.stat().st_mtime_ns,
        )
        for path in folder.iterdir()
    }


def other_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 99")
    connection.execute("CREATE TABLE t (a)")
    connection.close()


def no_application(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE sessions (id)")
    connection.close()


def in_wal_mode(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.close()


def newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.execute("CREATE TABLE t (a)")
    connection.close()


def text(path: Path) -> None:
    path.write_text("state of affairs\n" * 200)


def one_byte(path: Path) -> None:
    path.write_bytes(b"x")


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (other_program, "belongs to another program"),
        (no_application, "belongs to another program"),
        (in_wal_mode, "belongs to another program"),
        (newer, "newer Hermes"),
        (text, "not a session store"),
        (one_byte, "belongs to another program"),
        (noise, "not a session store"),
    ],
)
async def test_a_foreign_file_is_refused_by_name_and_left_alone(
    folder: Path, make: Callable[[Path], None], message: str
) -> None:
    path = folder / "state.db"
    make(path)
    before = snapshot(folder)
    with pytest.raises(StoreError, match=message) as caught:
        await Store.open(path)
    assert str(path) in str(caught.value)
    assert snapshot(folder) == before


def replace_with_folder(path: Path) -> None:
    path.mkdir()


def replace_with_dead_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere" / "else")


@pytest.mark.parametrize(
    ("make", "message"), [(replace_with_folder, "not a file"), (replace_with_dead_link, "leads nowhere")]
)
async def test_what_is_no_file_is_refused(folder: Path, make: Callable[[Path], None], message: str) -> None:
    make(folder / "state.db")
    with pytest.raises(StoreError, match=message):
        await Store.open(folder / "state.db")


async def test_an_empty_file_becomes_a_store(folder: Path) -> None:
    path = folder / "state.db"
    touch(path)
    async with await Store.open(path) as store:
        session = await store.create_session(workspace="/w", model="m")
    async with await Store.open(path) as store:
        assert (await store.session(session.id)).id == session.id


def touch(path: Path) -> None:
    path.touch()


def widen(path: Path) -> None:
    path.chmod(0o644)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_store_that_others_could_read_is_closed_to_them(path: Path) -> None:
    await (await Store.open(path)).close()
    widen(path)
    await (await Store.open(path)).close()
    assert mode(path) == 0o600


async def test_a_path_below_a_file_is_refused(folder: Path) -> None:
    touch(folder / "file")
    with pytest.raises(StoreError, match="Cannot use"):
        await Store.open(folder / "file" / "state.db")


async def filled(path: Path, count: int = 300) -> str:
    async with await Store.open(path) as store:
        session = await store.create_session(workspace="/w", model="m")
        await store.append_many(
            session.id, [NewNode("user", f"message {number} " + "x" * 300) for number in range(count)]
        )
    return session.id


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


async def test_a_cut_file_is_reported_as_damaged_and_left_alone(path: Path) -> None:
    await filled(path)
    cut(path, 40_000)
    before = snapshot(path.parent)
    with pytest.raises(DamagedStore, match="hermes sessions recover"):
        await Store.open(path)
    assert snapshot(path.parent) == before


def overwrite(path: Path, first: int, last: int) -> None:
    with path.open("r+b") as file:
        file.seek(first)
        file.write(b"\xa5" * (last - first))


async def test_damage_found_while_reading_is_reported(path: Path) -> None:
    session = await filled(path)
    overwrite(path, 4096 * 4, path.stat().st_size)
    with pytest.raises(DamagedStore):
        async with await Store.open(path) as store:
            await store.path(session)


async def test_a_locked_store_is_reported_and_usable_afterwards(path: Path) -> None:
    await filled(path, 1)
    blocker = sqlite3.connect(path, isolation_level=None)
    async with await Store.open(path, wait=0.2) as store:
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked by another program"):
            await store.create_session(workspace="/w", model="m")
        with pytest.raises(StoreError, match="locked by another program"):
            await store.list_sessions()
        blocker.execute("COMMIT")
        await store.create_session(workspace="/w", model="m")
        assert len(await store.list_sessions()) == 2
    blocker.close()


def limit_pages(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")


def lift_limit(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1000000")


async def test_a_full_disk_fails_the_append_and_loses_nothing(path: Path) -> None:
    session = await filled(path, 3)
    async with await Store.open(path) as store:
        await store._database.bare(limit_pages)
        before = await store.path(session)
        with pytest.raises(StoreError, match="is full"):
            await store.append(session, "user", "word " * 40_000)
        assert await store.path(session) == before
        await store._database.bare(lift_limit)
        node = await store.append(session, "user", "word " * 40_000, expected=before[-1].id)
        assert await store.path(session) == [*before, node]


LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from agent.errors import StoreError
from agent.core.store.store import Store

async def main(path, session):
    async with await Store.open(path) as store:
        nodes = await store.path(session)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        try:
            await store.append(session, "user", "word " * 40_000)
        except StoreError as error:
            print(error)
        assert await store.path(session) == nodes
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.append(session, "user", "fits again")

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


async def test_a_write_the_system_refuses_fails_the_append_and_loses_nothing(path: Path) -> None:
    session = await filled(path, 3)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIMITED, str(path), session, stdout=PIPE, stderr=PIPE, cwd=ROOT
    )
    output, errors = await child.communicate()
    assert (child.returncode, errors) == (0, b"")
    assert b"disk" in output
    async with await Store.open(path) as store:
        assert (await store.path(session))[-1].content == "fits again"


def only_read(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


async def test_a_read_only_store_is_reported_when_written_to(path: Path) -> None:
    session = await filled(path, 3)
    async with await Store.open(path) as store:
        await store._database.bare(only_read)
        with pytest.raises(StoreError, match="is read-only"):
            await store.append(session, "user", "hello")
        assert len(await store.path(session)) == 3


async def test_names_and_numbers_that_no_row_can_have_are_refused(path: Path) -> None:
    session = await filled(path, 1)
    async with await Store.open(path) as store:
        for odd in ("\ud800", "\0", "'; DROP TABLE nodes; --"):
            with pytest.raises(StoreError):
                await store.append(odd, "user", "hello")
            with pytest.raises(StoreError):
                await store.path(session, odd)
            with pytest.raises(StoreError):
                await store.fork(session, 10**30, odd)
        with pytest.raises(StoreError):
            await store.around(10**30, 3)
        assert len(await store.path(session)) == 1


async def test_a_store_that_was_moved_away_is_reported(path: Path) -> None:
    session = await filled(path, 1)
    async with await Store.open(path) as store:
        move(path)
        with pytest.raises(StoreError, match="moved or deleted"):
            await store.append(session, "user", "hello")


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


async def test_an_opening_that_is_cancelled_twice_leaves_no_connection(folder: Path) -> None:
    path = folder / "state.db"
    await (await Store.open(path)).close()
    before = set(threading.enumerate())
    for turns in range(12):
        opening = asyncio.create_task(Database.connect(path))
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(2):
            opening.cancel()
            await asyncio.sleep(0)
        try:
            await (await opening).close()
        except asyncio.CancelledError:
            pass
        gc.collect()  # A connection that is left says so when it goes.
        for thread in set(threading.enumerate()) - before:
            thread.join(20)
            assert not thread.is_alive()


@pytest.mark.parametrize("waits", [False, True])
async def test_a_close_that_is_cancelled_again_and_again_is_over_before_the_loop(
    folder: Path, waits: bool
) -> None:
    await (await Store.open(folder / "state.db")).close()
    before = set(threading.enumerate())
    store = await Store.open(folder / "state.db")
    go_on = threading.Event()
    # Its thread is at work until it may go on, so nothing that is handed over to it can be done before.
    reading = asyncio.create_task(store.database.bare(lambda _: go_on.wait(20)))
    await asyncio.sleep(0)
    if waits:
        store.database.write_along(lambda connection: connection.execute("SELECT 1"))
    closing = asyncio.create_task(store.close())
    for _ in range(8):
        await asyncio.sleep(0)
        closing.cancel()
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    assert await reading
    with pytest.raises(asyncio.CancelledError):
        await closing
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive()


def test_a_store_that_is_closed_as_the_loop_ends_leaves_no_thread(folder: Path) -> None:
    before = set(threading.enumerate())

    async def hold(held: asyncio.Event) -> None:
        async with await Store.open(folder / "state.db"):
            held.set()
            await asyncio.Event().wait()

    async def leave() -> None:
        held = asyncio.Event()
        holding = asyncio.create_task(hold(held))
        await held.wait()
        holding.cancel()

    asyncio.run(leave())
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


def test_a_store_that_opens_as_the_loop_ends_leaves_no_connection(folder: Path) -> None:
    asyncio.run(filled(folder / "state.db", 1))
    before = set(threading.enumerate())

    async def leave(turns: int) -> None:
        opening = asyncio.create_task(Store.open(folder / "state.db"))
        while "_connection_worker_thread" not in str(set(threading.enumerate()) - before):
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not opening.done()

    for turns in range(3):
        asyncio.run(leave(turns))
        for thread in set(threading.enumerate()) - before:
            thread.join(20)
            assert not thread.is_alive()
        gc.collect()  # A connection that is left says so when it goes.
