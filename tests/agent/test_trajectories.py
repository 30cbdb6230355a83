"""Branches as trajectories: what readers of the formats accept, whatever was said and cut off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from atif import Trajectory
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.export import portable_line
from agent.core.store.nodes import Node, Session
from agent.session.export.trajectories import atif_trajectory, openai_messages, shorten, tool_statistics

SESSION = Session("s", "title", "/w", "model", 1.0, 2.0, None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def node(id: int, kind: str, content: str = "", **data: Any) -> Node:
    return Node(id, "s", id - 1 or None, kind, 1_700_000_000.0 + id, content, data)


@st.composite
def paths(draw: st.DrawFn) -> list[Node]:
    """Sessions with calls that may lack a result, notices, compactions and odd arguments."""
    nodes = [node(1, "system", "be good")]
    for _ in range(draw(st.integers(0, 4))):
        nodes.append(node(len(nodes) + 1, "user", draw(TEXT)))
        if draw(st.booleans()):
            extra = draw(st.sampled_from(["notice", "compaction", "inner"]))
            nodes.append(node(len(nodes) + 1, extra, draw(TEXT), to_model=draw(st.booleans())))
        # Some providers number the calls of each answer anew.
        ids = [f"c{number}" for number in range(draw(st.integers(0, 3)))]
        arguments = st.sampled_from(
            ['{"a": 1}', "", "[1]", "{broken", "null", '{"a": NaN}', '{"a": 1e999}', '"\\ud800"']
        )
        calls = [{"id": id, "name": "tool", "arguments": draw(arguments)} for id in ids]
        usage = draw(st.sampled_from([{}, {"input": 3, "output": 2, "cached": None}]))
        nodes.append(
            node(len(nodes) + 1, "assistant", draw(TEXT), calls=calls, usage=usage, reasoning=draw(TEXT))
        )
        for id in ids:
            if draw(st.booleans()):
                nodes.append(node(len(nodes) + 1, "user", draw(TEXT), origin="steer"))
            if draw(st.booleans()):
                nodes.append(node(len(nodes) + 1, "tool", draw(TEXT), call=id, tool="tool", outcome="done"))
    return nodes


@pytest.mark.thorough
@given(paths())
def test_every_branch_is_a_valid_trajectory(path: list[Node]):
    given = portable_line(atif_trajectory(SESSION, path, "1.0"), ascii_only=True)
    json.loads(given, parse_constant=pytest.fail)
    read = Trajectory.model_validate_json(given)
    observed = [r for step in read.steps if step.observation for r in step.observation.results]
    assert len(observed) == sum(each.kind == "tool" for each in path)


@given(paths())
def test_messages_for_fine_tuning_pair_each_call_with_its_result(path: list[Node]):
    messages = openai_messages(path)["messages"]
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert open_calls == []
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert open_calls == []


@pytest.mark.parametrize(
    "odd",
    [{"calls": "abc"}, {"calls": [1, {}]}, {"calls": {"a": 1}}, {"usage": [1]}, {"usage": {"input": "x"}}],
)
def test_answers_that_another_program_wrote_leave_in_every_form(odd: dict[str, Any]):
    path = [node(1, "user", "q"), node(2, "assistant", "a", **odd)]
    read = Trajectory.model_validate_json(json.dumps(atif_trajectory(SESSION, path, "1.0")))
    assert read.steps[-1].message == "a"
    assert openai_messages(shorten(path, 1))["messages"][-1]["content"] == "a"


def test_statistics_count_calls_by_tool_and_end():
    ends = ["done", "done", "failed"]
    path = [node(i + 1, "tool", call=str(i), tool="patch", outcome=end) for i, end in enumerate(ends)]
    assert tool_statistics(path) == {"patch": {"calls": 3, "done": 2, "failed": 1}}
