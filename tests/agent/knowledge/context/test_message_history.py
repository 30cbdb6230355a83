"""Whatever is stored, the messages that follow from it are valid for a provider."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import Node
from agent.knowledge.context.message_history import (
    LOST_RESULT,
    MessageHistory,
    conversation,
    masked_arguments,
)
from tests.agent.knowledge.context.paths import PathOf


def roles(turned: list[MessageHistory]) -> list[str]:
    return [item.message.role for item in turned]


def assert_valid(turned: list[MessageHistory]) -> None:
    """Every call is answered once, at once and in order; nothing else answers."""
    messages = [item.message for item in turned]
    index = 0
    while index < len(messages):
        message = messages[index]
        assert message.role != "tool"
        assert message.content or message.tool_calls
        index += 1
        for call in message.tool_calls:
            assert messages[index].role == "tool"
            assert messages[index].call_id == call.id
            json.loads(call.arguments)
            index += 1


def test_results_stand_behind_their_call_in_the_order_of_the_calls() -> None:
    path = (
        PathOf()
        .user("go")
        .assistant("", ["a", "b"])
        .tool("b", "two")
        .add("notice", "x")
        .tool("a", "one")
        .nodes
    )
    turned = conversation(path)
    assert roles(turned) == ["user", "assistant", "tool", "tool"]
    assert [item.message.content for item in turned[2:]] == ["one", "two"]


def test_a_call_without_a_result_gets_one() -> None:
    turned = conversation(PathOf().user("go").assistant("", ["a", "b"]).tool("a", "one").user("next").nodes)
    assert [item.message.content for item in turned[2:4]] == ["one", LOST_RESULT]
    assert_valid(turned)


def test_results_without_a_call_and_empty_messages_are_left_out() -> None:
    path = PathOf().user("go").assistant("").tool("ghost", "boo").assistant("done").tool("late", "x").nodes
    assert roles(conversation(path)) == ["user", "assistant"]


def test_a_notice_reaches_the_model_only_when_it_is_for_it() -> None:
    path = PathOf().user("go").add("notice", "for you", to_model=True).add("notice", "for people").nodes
    assert [item.message.content for item in conversation(path)] == ["go", "for you"]


def test_an_interrupted_answer_says_so() -> None:
    path = PathOf().user("go").add("assistant", "half an", calls=[], state="interrupted").nodes
    assert "interrupted" in conversation(path)[1].message.content


def test_a_mask_hides_results_and_long_arguments() -> None:
    long = json.dumps({"path": "a", "content": "x" * 900})
    path = PathOf().user("go").assistant("", ["a"], arguments=long).tool("a", "y" * 900)
    path.add("compaction", "made room", stage="mask", nodes=[2, 3])
    turned = conversation(path.nodes)
    assert "900 characters" in turned[2].message.content
    assert json.loads(turned[1].message.tool_calls[0].arguments)["path"] == "a"
    assert len(turned[1].message.tool_calls[0].arguments) < 100
    assert_valid(turned)


def test_an_elision_drops_the_oldest_turns_and_says_how_many_messages() -> None:
    path = PathOf().user("one").assistant("1").user("two").assistant("2")
    path.add("compaction", "made room", stage="elide", **{"from": 3})
    messages = [item.message.content for item in conversation(path.nodes)]
    assert messages[0].startswith("[2 earlier messages")
    assert messages[1:] == ["two", "2"]


@given(st.text(max_size=40))
def test_masking_arguments_never_fails(text: str) -> None:
    masked_arguments(text)


kinds = st.sampled_from(["user", "assistant", "calls", "tool", "notice", "compaction", "system"])


@given(st.lists(st.tuples(kinds, st.sampled_from("abc"), st.integers(0, 9)), max_size=25))
def test_any_path_gives_a_valid_conversation(steps: list[tuple[str, str, int]]) -> None:
    path = PathOf()
    for kind, letter, number in steps:
        if kind == "calls":
            path.assistant("", [f"{letter}{len(path.nodes)}", f"x{len(path.nodes)}"])
        elif kind == "tool":
            path.tool(f"{letter}{number}", "result")
        elif kind == "assistant":
            path.assistant(letter * (number % 3))
        elif kind == "compaction":
            stage = "mask" if number % 2 else "elide"
            users = [node.id for node in path.nodes if node.kind == "user"]
            path.add("compaction", "", stage=stage, nodes=[number], **{"from": users[-1] if users else 0})
        else:
            path.add(kind, letter, to_model=bool(number % 2))
    assert_valid(conversation(path.nodes))


@given(st.integers(0, 6))
def test_derived_piece_by_piece_is_the_same_as_derived_at_once(cut: int) -> None:
    path = (
        PathOf().user("1").assistant("", ["a"]).tool("a", "r").assistant("x").user("2").assistant("y").nodes
    )
    borders = [index for index, node in enumerate(path) if node.kind in ("user", "assistant")]
    at = borders[cut % len(borders)]
    pieces: list[Node] = path[:at]
    assert [*conversation(pieces), *conversation(path[at:])] == conversation(path)
