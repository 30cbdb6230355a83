"""Trajectories fit a budget of tokens, and what says what was to be done and how it ended stays whole."""

from __future__ import annotations

import pytest

from agent.core.store.nodes import Node
from agent.session.export.trajectories import KEPT, called_tools, openai_messages, shorten, tokens_of
from tools.discovery import discover
from tools.registry import registry


def path(exchanges: int) -> list[Node]:
    nodes = [
        Node(1, "s", None, "system", 0.0, "You are Hermes.", {}),
        Node(2, "s", 1, "user", 0.0, "Look at all of it.", {"origin": "prompt"}),
    ]
    for number in range(exchanges):
        call = {"id": f"c{number}", "name": "read_file", "arguments": '{"path": "a"}'}
        told = {"call": call["id"], "tool": "read_file"}
        place = len(nodes)
        nodes.append(Node(place + 1, "s", place, "assistant", 0.0, f"step {number}", {"calls": [call]}))
        nodes.append(Node(place + 2, "s", place + 1, "tool", 0.0, "ü" * 8_000, told))
    return [*nodes, Node(len(nodes) + 1, "s", len(nodes), "assistant", 0.0, "It is done.", {})]


@pytest.mark.parametrize(
    ("most", "whole"), [(100_000, True), (30_000, False), (9_000, False), (7_000, False)]
)
def test_a_trajectory_fits_its_budget(most: int, whole: bool) -> None:
    nodes = path(20)
    found = shorten(nodes, most)
    assert tokens_of(found) <= most
    assert (found == nodes) is whole
    assert found[:2] == nodes[:2] and found[-2 * KEPT + 1 :] == nodes[-2 * KEPT + 1 :]
    messages = openai_messages(found)["messages"]
    answered = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    assert answered == [call["id"] for each in messages for call in each.get("tool_calls", ())]


def test_what_has_to_stay_may_be_more_and_what_is_left_out_is_told() -> None:
    found = shorten(path(20), 1)
    assert [node.kind for node in found[:3]] == ["system", "user", "notice"]
    assert found[2].content == "[34 entries left out here.]"
    assert found[-1].content == "It is done." and shorten([], 1) == []
    # Results of the last exchanges, too, are cut where nothing else is left.
    assert tokens_of(found) < 400 and "shortened" in found[-2].content


def test_a_line_for_fine_tuning_defines_the_tools_that_it_calls() -> None:
    discover()
    other = {"id": "m1", "name": "mcp_box_look", "arguments": '{"where": "here", "deep": true}'}
    odd = {"id": "m2", "name": "odd", "arguments": "not json"}
    nodes = [*path(2), Node(90, "s", 89, "assistant", 0.0, "", {"calls": [other, odd]})]
    found = called_tools(nodes, registry)
    assert [each["function"]["name"] for each in found] == ["mcp_box_look", "odd", "read_file"]
    assert {each["type"] for each in found} == {"function"}
    assert set(found[0]["function"]["parameters"]["properties"]) == {"deep", "where"}
    assert found[1]["function"]["parameters"]["properties"] == {}
    assert "path" in found[2]["function"]["parameters"]["properties"]
    assert found[2]["function"]["description"]
