"""What is let go of in memory changes nothing that is sent, and little of a long session stays."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import Node
from agent.knowledge.context.compaction import FoldRoom, plan_fold, plan_mask
from agent.knowledge.context.layer import trimmed
from agent.knowledge.context.message_history import conversation, newest_fold
from tests.agent.knowledge.context.paths import PathOf

LONG = json.dumps({"path": "a", "content": "x" * 900})

kinds = st.sampled_from(["user", "engine", "assistant", "calls", "tool", "todo", "notice", "room", "system"])


def held(path: list[Node]) -> int:
    return sum(len(node.content) + len(json.dumps(dict(node.data))) for node in path)


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


@given(st.lists(st.tuples(kinds, st.integers(0, 9)), max_size=30))
def test_the_conversation_of_a_lightened_path_is_the_same(steps: list[tuple[str, int]]) -> None:
    path = built(steps).nodes
    light = trimmed(path)
    assert conversation(light) == conversation(path)
    assert [(node.id, node.parent, node.kind) for node in light] == [
        (node.id, node.parent, node.kind) for node in path
    ]
    assert trimmed(light) == light


@given(
    st.lists(st.tuples(kinds, st.integers(0, 9)), max_size=15), st.lists(st.tuples(kinds, st.integers(0, 9)))
)
def test_what_comes_behind_a_lightened_path_makes_the_same_conversation(
    before: list[tuple[str, int]], behind: list[tuple[str, int]]
) -> None:
    whole = built([*before, *behind]).nodes
    count = len(built(before).nodes)
    assert conversation([*trimmed(whole[:count]), *whole[count:]]) == conversation(whole)


def test_what_is_no_longer_sent_is_let_go_of() -> None:
    path = PathOf()
    for number in range(200):
        path.user(f"question {number}").assistant("", [str(number)], LONG).tool(str(number), "y" * 5_000)
        path.assistant("answer " * 50)
    full = held(path.nodes)
    start = path.nodes[-40].id
    path.add("compaction", "made room", stage="elide", **{"from": start})
    path.add("compaction", "made room", stage="mask", nodes=[node.id for node in path.nodes[-40:-4]])
    light = trimmed(path.nodes)
    assert held(light) < full / 20
    assert conversation(light) == conversation(path.nodes)


def test_the_newest_of_what_is_asked_for_stays_whole() -> None:
    path = PathOf().add("system", "old prompt").add("system", "prompt").user("question")
    path.add("tool", '{"todos": []}', call="t", tool="todo_write").assistant("answer")
    path.add("user", "go on", origin="engine").assistant("")
    path.add("compaction", "made room", stage="elide", **{"from": 7})
    contents = [node.content for node in trimmed(path.nodes)]
    assert contents == ["", "prompt", "question", '{"todos": []}', "answer", "", "", "made room"]
