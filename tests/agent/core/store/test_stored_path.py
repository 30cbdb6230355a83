"""A path whose old nodes are read from the store is the same as one in memory, and holds little of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store import stored_path
from agent.core.store.nodes import NewNode, Node
from agent.core.store.store import Store
from agent.core.store.stored_path import StoredPath, labelled, position_of, with_ids
from agent.errors import StoreError
from agent.knowledge.context.compaction import FoldRoom, plan_fold, plan_mask, sent_whole, still_shown
from agent.knowledge.context.message_history import conversation, newest_fold, refused_nodes
from tests.agent.knowledge.context.paths import PathOf

LONG = json.dumps({"path": "a", "content": "x" * 900})

kinds = st.sampled_from(["user", "engine", "assistant", "calls", "tool", "todo", "notice", "room", "system"])


def built(steps: list[tuple[str, int]]) -> PathOf:
    path = PathOf()
    for kind, number in steps:
        match kind:
            case "engine":
                path.add("user", "go on", origin="engine")
            case "calls":
                path.assistant("", [str(number), "x"], LONG if number % 2 else "{}")
            case "tool":
                path.tool(str(number), f"result {number} " * 60)
            case "todo":
                path.add("tool", "[]", call=str(number), tool="todo_write", outcome="done")
            case "assistant":
                path.assistant("said " * (number % 3))
            case "user":
                path.user(f"question {number}")
            case "room":
                plan = plan_mask(path.nodes, number % 4)
                if number > 5 and path.nodes:
                    found = newest_fold(path.nodes)
                    room = FoldRoom(tail=number * 300, words=number * 20, pins=0)
                    fold = plan_fold(path.nodes, room, frozenset(), found[1] if found else None)
                    path.add("compaction", "folded", **fold.data())
                elif plan is not None:
                    path.add("compaction", plan.sentence(), **plan.data)
            case _:
                path.add(kind, f"text {number}", to_model=bool(number % 2))
    return path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little stays in memory, so that short paths are read from the store too."""
    monkeypatch.setattr(stored_path, "NEWEST", 3)
    monkeypatch.setattr(stored_path, "PAGE", 4)
    monkeypatch.setattr(stored_path, "BULK", 5)
    yield


def paged(nodes: list[Node]) -> StoredPath:
    found = {node.id: node for node in nodes}
    return StoredPath(nodes, lambda ids: [found[id] for id in ids])


@given(st.lists(st.tuples(kinds, st.integers(0, 9)), max_size=40))
def test_what_is_made_of_a_stored_path_is_the_same_as_of_one_in_memory(steps: list[tuple[str, int]]) -> None:
    nodes = built(steps).nodes
    path = paged(nodes)
    assert list(path) == nodes
    assert list(reversed(path)) == nodes[::-1]
    assert len(path) == len(nodes)
    assert conversation(path) == conversation(nodes)
    assert sent_whole(path) == sent_whole(nodes)
    assert still_shown(path) == still_shown(nodes)
    assert newest_fold(path) == newest_fold(nodes)
    assert refused_nodes(path) == refused_nodes(nodes)
    for label in stored_path.LABELS:
        assert path.labelled(label) == labelled(nodes, label)


@given(st.integers(0, 30), st.integers(-35, 35), st.integers(-35, 35))
def test_slices_and_indexes_are_those_of_a_list(count: int, start: int, stop: int) -> None:
    nodes = PathOf()
    for number in range(count):
        nodes.user(f"question {number}")
    path = paged(nodes.nodes)
    assert list(path[start:stop]) == nodes.nodes[start:stop]
    assert list(path[:stop]) == nodes.nodes[:stop]
    assert list(path[start:]) == nodes.nodes[start:]
    assert list(path[::-1]) == nodes.nodes[::-1]
    assert [path[at] for at in range(-count, count)] == [nodes.nodes[at] for at in range(-count, count)]
    for id in range(count + 2):
        assert position_of(path, id) == position_of(nodes.nodes, id)
        assert with_ids(path, [id]) == with_ids(nodes.nodes, [id])
    with pytest.raises(IndexError):
        path[count]


def test_a_shorter_path_does_not_change_with_the_one_it_is_from() -> None:
    nodes = PathOf()
    for number in range(20):
        nodes.user(f"question {number}").add("notice", f"note {number}")
    path = paged(nodes.nodes)
    whole, beginning = path[:], path[:7]
    path.append(Node(99, "s", 40, "notice", 0.0, "later", {}))
    assert isinstance(whole, StoredPath)
    assert isinstance(beginning, StoredPath)
    assert list(whole) == nodes.nodes
    beginning.append(Node(98, "s", 7, "notice", 0.0, "other", {}))
    assert [node.content for node in beginning.labelled("notice")] == ["note 0", "note 1", "note 2", "other"]
    assert path[-1].content == "later"
    assert list(path[:-1]) == nodes.nodes


async def test_only_the_end_of_a_stored_conversation_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.core.store.store.NEWEST", 3)
    todo = {"call": "1", "tool": "todo_write"}
    async with await Store.open(tmp_path / "state.db") as store:
        session = await store.create_session(workspace="/w", model="m")
        new = [NewNode("system", "prompt"), NewNode("tool", '{"todos": []}', todo)]
        new += [NewNode("user" if at % 2 else "assistant", f"text {at}", {"at": at}) for at in range(30)]
        whole = await store.append_many(session.id, new)
        path = await store.stored_path(session.id)
        read: list[int] = []
        monkeypatch.setattr(path, "_read", lambda ids: read.extend(ids) or store.nodes_now(ids))
        assert [node.content for node in (path[-1], *path.labelled("system", "todo"))] == [
            "text 29",
            "prompt",
            '{"todos": []}',
        ]
        assert not read
        assert path[20] == whole[20]
        assert list(path.ids[20:24]) == read
        assert list(path) == whole
        assert not path.is_in_memory
    assert path[4] == whole[4]


async def test_a_conversation_that_was_deleted_meanwhile_is_missing_and_not_empty(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        session = await store.create_session(workspace="/w", model="m")
        nodes = await store.append_many(session.id, [NewNode("user", f"text {at}") for at in range(30)])
        path = StoredPath(nodes, store.nodes_now)
        await store.delete(session.id)
        with pytest.raises(StoreError, match="no longer in the store"):
            path[2]
