"""Room is made by the mildest plan that is enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.context.history import conversation
from agent.context.masking import Plan, plan_room
from agent.store.nodes import Node
from tests.agent.context.paths import PathOf
from tests.agent.context.test_history import assert_valid


def long_session(turns: int, size: int) -> PathOf:
    path = PathOf().add("system", "prompt")
    for turn in range(turns):
        path.user(f"task {turn}").assistant("", [f"c{turn}"]).tool(f"c{turn}", "r" * size).assistant("done")
    return path


def applied(nodes: list[Node], plan: Plan) -> list[Node]:
    number = nodes[-1].id + 1
    return [*nodes, Node(number, "s", number - 1, "compaction", 0.0, plan.sentence(), plan.data)]


def size_of(nodes: list[Node]) -> int:
    return sum(len(item.message.content) for item in conversation(nodes))


def test_old_results_go_first_and_the_newest_stay() -> None:
    nodes = long_session(8, 1_000).nodes
    plan = plan_room(nodes, 3_000)
    assert plan is not None
    assert plan.stage == "mask"
    after = applied(nodes, plan)
    whole = [item.message.content for item in conversation(after) if item.message.content.startswith("rrr")]
    assert len(whole) == 3


def test_when_results_are_not_enough_the_oldest_turns_go() -> None:
    path = PathOf()
    for turn in range(20):
        path.user(f"{turn} " + "u" * 1_000).assistant("a" * 1_000)
    plan = plan_room(path.nodes, 10_000)
    assert plan is not None
    assert plan.stage == "elide"
    messages = [item.message.content for item in conversation(applied(path.nodes, plan))]
    assert messages[-2].startswith("19 ")
    assert "earlier messages" in messages[0]


def test_a_single_huge_result_can_be_masked_too() -> None:
    nodes = PathOf().user("go").assistant("", ["a"]).tool("a", "r" * 50_000).nodes
    plan = plan_room(nodes, 40_000)
    assert plan is not None
    assert size_of(applied(nodes, plan)) < 500


def test_nothing_to_leave_out_gives_no_plan() -> None:
    assert plan_room(PathOf().user("u" * 9_000).nodes, 5_000) is None


@given(st.integers(1, 9), st.integers(0, 3_000), st.integers(1, 30_000))
def test_making_room_again_and_again_comes_to_an_end(turns: int, size: int, needed: int) -> None:
    nodes = long_session(turns, size).nodes
    for _ in range(12):
        plan = plan_room(nodes, needed)
        if plan is None:
            break
        before = size_of(nodes)
        nodes = applied(nodes, plan)
        assert size_of(nodes) <= before + 120
        assert_valid(conversation(nodes))
        newest = conversation(nodes)
        assert any(item.message.content == f"task {turns - 1}" for item in newest)
    else:
        raise AssertionError("making room does not come to an end")
