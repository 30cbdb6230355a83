from __future__ import annotations

import os
import random
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from agent.core.store.nodes import NewNode, Node
from agent.core.store.salvage import recover_copy
from agent.core.store.store import Store
from agent.errors import StoreError


async def filled(path: Path) -> tuple[str, list[Node]]:
    async with await Store.open(path) as store:
        session = await store.create_session(workspace="/w", model="m", title="Precious")
        texts = [f"message {number} says {'lorem ipsum ' * (number % 40)}" for number in range(800)]
        nodes = await store.append_many(session.id, [NewNode("user", text) for text in texts])
        await store.fork(session.id, nodes[100].id, "side")
        other = await store.create_session(workspace="/w", model="m")
        await store.append(other.id, "user", "deleted later")
        await store.delete(other.id)
    return session.id, nodes


def page_size_and_count(path: Path) -> tuple[int, int]:
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    return size, count


def damage(path: Path, first: int, last: int) -> None:
    """Overwrite pages `first` to `last` (1-based, inclusive)."""
    size, _ = page_size_and_count(path)
    with path.open("r+b") as file:
        file.seek((first - 1) * size)
        file.write(os.urandom((last - first + 1) * size))


def raw(path: Path) -> bytes:
    return path.read_bytes()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_sound_store_is_copied_whole(path: Path) -> None:
    session, nodes = await filled(path)
    before = raw(path)
    copy = recover_copy(path)
    assert copy.parent == path.parent
    assert mode(copy) == 0o600
    assert raw(path) == before
    async with await Store.open(copy) as store:
        assert await store.path(session) == nodes
        assert await store.path(session, "side") == nodes[:101]
        assert (await store.session(session)).title == "Precious"
        assert (await store.search("deleted later")).total == 0
        assert (await store.search("message 700")).total == 1
        await store.append(session, "user", "goes on", expected=nodes[-1].id)
    assert {each.name for each in path.parent.iterdir()} == {path.name, copy.name}


async def test_labels_are_kept_and_events_go_on_after_the_last_number(path: Path) -> None:
    session, nodes = await filled(path)
    async with await Store.open(path) as store:
        await store.mark(session, nodes[3].id, label="here", bookmarked=True)
        await store.reserve_events(session, 40)
    async with await Store.open(recover_copy(path)) as store:
        assert [(each.node, each.label) for each in await store.marks(session)] == [(nodes[3].id, "here")]
        assert await store.reserve_events(session, 1) == 41


@pytest.mark.thorough
async def test_what_lies_outside_the_damage_is_saved(path: Path) -> None:
    session, nodes = await filled(path)
    texts = {node.id: node.content for node in nodes}
    _, pages = page_size_and_count(path)
    chance = random.Random(3)
    saved = []
    for turn in range(8):
        broken = path.with_name(f"broken{turn}.db")
        shutil.copy(path, broken)
        page = chance.randrange(5, pages - 3)
        damage(broken, page, page + 1)
        copy = recover_copy(broken)
        async with await Store.open(copy) as store:
            found = await store.list_sessions(10, 0, children=True, archived=True)
            kept = [node for each in found async for node in store.all_nodes(each.id)]
            same = [node for node in kept if texts.get(node.id) == node.content]
            saved.append(len(same))
            line = await store.path(session)
            assert [node.id for node in line] == sorted(node.id for node in line)
            await store.append(session, "user", "goes on")
            assert (await store.search("goes on")).total == 1
    assert min(saved) > 0
    assert sorted(saved)[len(saved) // 2] > 700


async def test_a_cut_file_gives_what_was_before_the_cut(path: Path) -> None:
    session, nodes = await filled(path)
    size, pages = page_size_and_count(path)
    os.truncate(path, size * (pages // 2))
    copy = recover_copy(path)
    async with await Store.open(copy) as store:
        texts = {node.content for node in await store.path(session)}
        assert texts
        assert texts <= {node.content for node in nodes}


async def test_an_unfinished_transaction_is_undone_in_the_copy_only(path: Path) -> None:
    session, nodes = await filled(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 2")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM nodes WHERE id > 10")
    cut = path.with_name("cut.db")
    shutil.copy(path, cut)
    shutil.copy(f"{path}-journal", f"{cut}-journal")
    connection.execute("ROLLBACK")
    connection.close()
    before = raw(cut)
    copy = recover_copy(cut)
    assert raw(cut) == before
    async with await Store.open(copy) as store:
        assert await store.path(session) == nodes


def test_a_missing_or_foreign_file_is_refused(folder: Path) -> None:
    with pytest.raises(StoreError, match="no session store at"):
        recover_copy(folder / "none.db")
    (folder / "text.db").write_text("hello " * 1_000)
    with pytest.raises(StoreError, match="can be read"):
        recover_copy(folder / "text.db")
    connection = sqlite3.connect(folder / "other.db")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    with pytest.raises(StoreError, match="not a session store of this version"):
        recover_copy(folder / "other.db")
    assert {each.name for each in folder.iterdir()} == {"text.db", "other.db"}
