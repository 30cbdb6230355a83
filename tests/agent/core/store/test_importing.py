"""Sessions from files: what was exported comes back, and what is wrong is said by its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.export import line, node_record
from agent.core.store.importing import parse_sessions
from agent.core.store.nodes import Session
from agent.core.store.store import Store
from agent.errors import StoreError
from tests.agent.core.store.test_export import conversation


async def exported(store: Store, session: str) -> list[str]:
    heads = await store.heads(session)
    return [line(node_record(node, heads)) async for node in store.all_nodes(session)]


async def test_an_export_comes_back_as_it_was(store: Store, session: Session, path: Path) -> None:
    nodes = await conversation(store, session)
    await store.fork(session.id, nodes[1].id, "side")
    await store.append(session.id, "assistant", "elsewhere \ud800", head="side")
    lines = await exported(store, session.id)
    async with await Store.open(path.with_name("other.db")) as other:
        (imported,) = await other.import_sessions(parse_sessions(lines))
        assert imported.session == session.id
        assert await exported(other, session.id) == lines
        there = await other.session(session.id)
        assert (there.title, there.created) == ("What is in a.txt?", nodes[0].created)
        assert [head.name for head in await other.heads(session.id)] == ["main", "side"]
        assert await other.unfinished_branches(session.id) == ()
        assert (await other.search("a.txt")).total == (await store.search("a.txt")).total
        await other.append(session.id, "user", "it continues")


async def test_what_is_here_already_is_refused_or_copied(store: Store, session: Session) -> None:
    await conversation(store, session)
    lines = await exported(store, session.id)
    sessions = parse_sessions(lines)
    with pytest.raises(StoreError, match="is here already; delete them first, or give --copy"):
        await store.import_sessions(sessions)
    assert len(await store.list_sessions()) == 1
    (copied,) = await store.import_sessions(sessions, copied=True)
    assert copied.session != session.id
    contents = [[node.content for node in await store.path(each)] for each in (session.id, copied.session)]
    assert contents[0] == contents[1]
    parents = [node.parent for node in await store.path(copied.session)]
    assert parents == [None, *[copied.nodes[node.id] for node in (await store.path(session.id))[:-1]]]


def record(**changes: Any) -> dict[str, Any]:
    whole = {"id": 1, "session": "s", "parent": None, "kind": "user", "created": 1.0, "content": "x"}
    return whole | changes


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "holds no messages"),
        (["", "  "], "holds no messages"),
        (["{"], "Line 1 is not JSON"),
        (["[" * 100_000], "Line 1 is not JSON"),
        (["[1]"], "Line 1 is not a JSON object"),
        ([record(), record()], "Line 2 has the id 1, which stood before"),
        ([record(id="1")], "Line 1 has no whole number as id"),
        ([record(id=True)], "no whole number as id"),
        ([record(id=-1)], "no whole number as id"),
        ([record(id=2**70)], "no whole number as id"),
        ([record(session=None)], "Line 1 names no session"),
        ([record(session="a\x1b[2Jb")], "names no session"),
        ([record(parent=9)], "follows a message that does not stand before it"),
        ([record(), record(id=2, session="t", parent=1)], "Line 2 follows a message"),
        ([record(kind="shout")], "has no kind of assistant"),
        ([record(created="now")], "has no time"),
        ([record(created=float("nan"))], "has no time"),
        ([record(created=1e300)], "has no time"),
        ([record(content=None)], "needs a text as content"),
        ([record(data=[])], "an object as data"),
        ([record(heads="main")], "heads that are not names"),
        ([record(heads=[1])], "heads that are not names"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_wrong_line_is_named(lines: list[Any], said: str) -> None:
    with pytest.raises(StoreError, match=said):
        parse_sessions([each if isinstance(each, str) else json.dumps(each) for each in lines])


async def test_lines_of_other_programs_need_little(store: Store) -> None:
    lines = [
        json.dumps(record(workspace="/w", title="A\x1b[31m title", model="m")),
        json.dumps(record(id=7, parent=1, kind="assistant", created=2, content="y")),
        json.dumps(record(id=3, session="t")),
    ]
    one, two = await store.import_sessions(parse_sessions(lines))
    assert one.nodes == {1: 1, 7: 7}
    assert two.nodes == {3: 8}
    session = await store.session("s")
    assert (session.workspace, session.title, session.model, session.length) == ("/w", "A title", "m", 2)
