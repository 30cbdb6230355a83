from __future__ import annotations

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from agent.core.store import schema
from agent.core.store.connection import HeadMoved
from agent.core.store.nodes import NewNode, Session
from agent.core.store.store import Store
from agent.errors import StoreError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def raw(path: Path) -> bytes:
    return path.read_bytes()


async def test_a_new_store_is_private_and_set_up_once(path: Path) -> None:
    async with await Store.open(path) as store:
        await store.create_session(workspace="/w", model="m")
        assert store.file == path
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert connection.execute("PRAGMA application_id").fetchone() == (0x4865726D,)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    connection.close()


async def test_what_was_appended_comes_back_exactly(store: Store, session: Session) -> None:
    data = {"origin": "prompt", "nested": [1, {"a": None}], "text": "é\u2028 \ud800"}
    content = "first\0line\nsecond 😀 \r\t end"
    node = await store.append(session.id, "user", content, data)
    (again,) = await store.path(session.id)
    assert again == node
    assert again.content == content
    assert again.data == data
    assert await store.node(session.id, node.id) == node


async def test_the_first_user_message_names_the_session(store: Store, session: Session) -> None:
    await store.append(session.id, "system", "You are helpful.")
    assert (await store.session(session.id)).title == ""
    await store.append(session.id, "user", "Fix the build\nplease")
    await store.append(session.id, "user", "something else")
    assert (await store.session(session.id)).title == "Fix the build"


async def test_a_branch_shares_what_came_before(store: Store, session: Session) -> None:
    one = await store.append(session.id, "user", "one")
    two = await store.append(session.id, "assistant", "two")
    head = await store.fork(session.id, one.id, "other")
    assert (head.name, head.node) == ("other", one.id)
    three = await store.append(session.id, "assistant", "three", head="other")
    assert await store.path(session.id, "other") == [one, three]
    assert await store.path(session.id) == [one, two]
    assert [each.name for each in await store.heads(session.id)] == ["other", "main"]
    assert [each async for each in store.all_nodes(session.id)] == [one, two, three]


async def test_a_fork_needs_a_node_of_the_session_and_a_free_name(store: Store, session: Session) -> None:
    other = await store.create_session(workspace="/w", model="m")
    foreign = await store.append(other.id, "user", "hello")
    own = await store.append(session.id, "user", "hello")
    with pytest.raises(StoreError, match="no message"):
        await store.fork(session.id, foreign.id, "x")
    with pytest.raises(StoreError, match="already"):
        await store.fork(session.id, own.id, "main")
    for name in ("", "  ", "a\nb", "a\x1b[31m", "x" * 101):
        with pytest.raises(StoreError, match="needs a name"):
            await store.fork(session.id, own.id, name)


async def test_an_append_to_a_moved_head_writes_nothing(store: Store, session: Session) -> None:
    first = await store.append(session.id, "user", "one", expected=None)
    second = await store.append(session.id, "user", "two", expected=first.id)
    for stale in (None, first.id):
        with pytest.raises(HeadMoved) as caught:
            await store.append(session.id, "user", "late", expected=stale)
        assert caught.value.found == second.id
    assert await store.path(session.id) == [first, second]


async def test_several_nodes_are_added_together_or_not_at_all(store: Store, session: Session) -> None:
    nodes = await store.append_many(session.id, [NewNode("user", "one"), NewNode("assistant", "two")])
    assert nodes[1].parent == nodes[0].id
    assert await store.append_many(session.id, []) == []
    with pytest.raises(StoreError, match="no kind"):
        await store.append_many(session.id, [NewNode("user", "x"), NewNode("poem", "y")])  # type: ignore[arg-type]
    assert await store.path(session.id) == nodes


async def test_nodes_are_never_changed(store: Store, session: Session, path: Path) -> None:
    await store.append(session.id, "user", "one")
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute("UPDATE nodes SET content = 'two'")
    connection.close()


async def test_unknown_sessions_and_branches_are_named(store: Store, session: Session) -> None:
    with pytest.raises(StoreError, match="no session 20200101"):
        await store.append("20200101-000000-abcdef", "user", "hello")
    with pytest.raises(StoreError, match="has no branch side; it has main"):
        await store.path(session.id, "side")
    with pytest.raises(StoreError, match="no session nope"):
        await store.heads("nope")


async def test_a_window_of_a_path_is_its_end(store: Store, session: Session) -> None:
    nodes = await store.append_many(session.id, [NewNode("user", str(number)) for number in range(1_203)])
    assert await store.path(session.id) == nodes
    assert await store.tail(session.id, "main", 3) == nodes[-3:]
    assert await store.tail(session.id, "main", 0) == []
    assert await store.tail(session.id, "main", 5_000) == nodes
    assert await store.before(session.id, nodes[700].id, 600) == nodes[100:700]
    assert await store.before(session.id, nodes[0].id, 5) == []
    assert await store.length(session.id) == 1_203
    assert (await store.session(session.id)).length == 1_203


async def test_a_cancelled_append_is_whole_or_absent(store: Store, session: Session) -> None:
    for number in range(30):
        task = asyncio.create_task(store.append(session.id, "user", f"message {number}"))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    nodes = await store.path(session.id)
    assert [node.parent for node in nodes] == [None, *(node.id for node in nodes[:-1])]
    await store.append(session.id, "user", "goes on", expected=nodes[-1].id if nodes else None)


async def test_concurrent_appends_make_one_line(store: Store, session: Session) -> None:
    await asyncio.gather(*(store.append(session.id, "user", str(number)) for number in range(50)))
    nodes = await store.path(session.id)
    assert sorted(int(node.content) for node in nodes) == list(range(50))


async def test_sessions_are_listed_newest_first(store: Store) -> None:
    made = [await store.create_session(workspace=f"/{number % 2}", model="m") for number in range(4)]
    children = [await store.create_session(workspace="/0", model="m", parent=made[0].id) for _ in range(6)]
    await store.append(made[1].id, "user", "most recent")
    ids = [each.id for each in await store.list_sessions(10, 0)]
    assert ids[0] == made[1].id
    assert set(ids) == {each.id for each in made}
    assert [each.id for each in await store.list_sessions(2, 1)] == ids[1:3]
    assert {each.id for each in await store.list_sessions(10, 0, "/0")} == {made[0].id, made[2].id}
    assert [each.id for each in await store.children(made[0].id)] == [each.id for each in children]
    latest = await store.latest_session("/1")
    assert latest is not None
    assert latest.id == made[1].id
    assert await store.latest_session("/nowhere") is None
    await store.archive(made[1].id)
    latest = await store.latest_session("/1")
    assert latest is not None
    assert latest.id == made[3].id
    assert len(await store.list_sessions(-1, 0)) == 0
    assert len(await store.list_sessions(10**30, -5, archived=True)) == 4


async def test_a_session_is_found_by_id_prefix_or_title(store: Store) -> None:
    one = await store.create_session(workspace="/w", model="m", title="Build")
    two = await store.create_session(workspace="/w", model="m", title="Build")
    assert (await store.find_session(one.id)).id == one.id
    assert (await store.find_session(f" {two.id} ")).id == two.id
    assert (await store.find_session("Build")).id == two.id
    assert (await store.find_session(one.id[:-1])).id == one.id
    with pytest.raises(StoreError, match="Several sessions begin with"):
        await store.find_session(one.id[:4])
    with pytest.raises(StoreError, match=r"near it: .*\(Build\)"):
        await store.find_session("Biuld")
    for nonsense in ("", "%", "_", "\0", "\ud800", "zzzzzz"):
        with pytest.raises(StoreError, match="There is no session"):
            await store.find_session(nonsense)


async def test_an_empty_store_says_so(store: Store) -> None:
    with pytest.raises(StoreError, match="none was saved yet"):
        await store.find_session("anything")
    assert await store.latest_session() is None


async def test_rename_sets_a_title_of_one_clean_line(store: Store, session: Session) -> None:
    renamed = await store.rename(session.id, " A \x1b]0;evil\x07 new\nname ")
    assert renamed.title == "A new name"
    with pytest.raises(StoreError, match="cannot be empty"):
        await store.rename(session.id, " \n")
    with pytest.raises(StoreError, match="at most 200"):
        await store.rename(session.id, "x" * 201)
    with pytest.raises(StoreError, match="no session"):
        await store.rename("nope", "title")
    assert (await store.set_model(session.id, "other/model")).model == "other/model"


async def test_a_deleted_session_leaves_no_word_in_the_file(
    store: Store, session: Session, path: Path
) -> None:
    kept = await store.create_session(workspace="/w", model="m")
    await store.append(kept.id, "user", "keepsake")
    child = await store.create_session(workspace="/w", model="m", parent=session.id)
    for number in range(30):
        await store.append(session.id, "user", f"zebracrossing number {number}")
        await store.append(child.id, "user", f"zebracrossing child {number}")
    await store.save_draft(session.id, "main", "zebracrossing draft", "")
    assert b"zebracrossing" in raw(path)
    assert set(await store.delete(session.id)) == {session.id, child.id}
    left = raw(path)
    assert b"zebracrossing" not in left
    assert b"ebr" not in left
    assert b"keepsake" in left
    assert (await store.search("zebracrossing")).total == 0
    assert (await store.search("keepsake")).total == 1
    with pytest.raises(StoreError, match="deleted"):
        await store.append(session.id, "user", "too late")
    with pytest.raises(StoreError, match="no session"):
        await store.delete(session.id)
    for index in ("words", "trigrams"):
        connection = sqlite3.connect(path)
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        connection.close()


async def test_ids_of_deleted_nodes_are_not_used_again(store: Store, session: Session) -> None:
    old = await store.append(session.id, "user", "one")
    await store.delete(session.id)
    new = await store.create_session(workspace="/w", model="m")
    assert (await store.append(new.id, "user", "two")).id > old.id


async def test_a_closed_store_says_so(path: Path) -> None:
    store = await Store.open(path)
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="was closed"):
        await store.list_sessions()


async def test_a_session_that_was_only_opened_is_not_continued_in_place_of_one_with_words(
    store: Store,
) -> None:
    opened = await store.create_session(workspace="/w", model="m")
    assert (await store.latest_session("/w")) == await store.session(opened.id)
    worked = await store.create_session(workspace="/w", model="m")
    await store.append(worked.id, "system", "You are Hermes.")
    await store.append(worked.id, "user", "hello")
    for _ in range(3):
        only = await store.create_session(workspace="/w", model="m")
        await store.append(only.id, "system", "You are Hermes.")
    latest = await store.latest_session("/w")
    assert latest is not None and latest.id == worked.id
