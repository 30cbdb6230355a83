"""Which tools a query finds."""

from __future__ import annotations

import pytest

from tools.inner_call import inner_call, meant_arguments
from tools.text.tool_ranking import Findable, ranked


def findable(name: str, description: str, *parameters: str) -> Findable:
    return Findable(name, description, {"properties": {each: {} for each in parameters}})


TOOLS = [
    findable("mcp__hub__createIssue", "Open a ticket in a repository.", "title", "body"),
    findable("mcp__hub__list_issues", "All tickets of a repository.", "state", "labels"),
    findable("mcp__mail__send", "Send a letter to somebody.", "recipient", "subject"),
    findable("mcp__mail__search", "Find letters; to send one is another tool.", "query"),
    findable("mcp__maps__route", "The way between two places.", "from", "to", "vehicle"),
    findable("wetter", "Wie das Wetter in einer Stadt wird. Größe und Böen.", "stadt"),
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("create an issue", "mcp__hub__createIssue"),
        ("list issues", "mcp__hub__list_issues"),
        ("mcp__mail__search", "mcp__mail__search"),
        ("send", "mcp__mail__send"),
        ("SEARCH", "mcp__mail__search"),
        ("by vehicle", "mcp__maps__route"),
        ("größe", "wetter"),
        ("nothing like it whatsoever", None),
        ("", None),
        ("(\x00*[", None),
    ],
)
def test_the_best_tool_comes_first(query: str, best: str | None) -> None:
    found = ranked(query, TOOLS)
    assert (found[0].name if found else None) == best
    assert found == ranked(query, TOOLS[::-1])


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"name": "a", "arguments": {"x": 1}}, ("a", {"x": 1})),
        ({"name": " a "}, ("a", {})),
        ({"name": "a", "arguments": '{"x": 1}'}, ("a", {"x": 1})),
        ({"name": "a", "arguments": ""}, ("a", {})),
        ({"name": "a", "arguments": None}, ("a", {})),
        ({"name": "a", "arguments": "{x"}, None),
        ({"name": "a", "arguments": [1]}, None),
        ({"name": "tool_call", "arguments": {"name": "a"}}, None),
        ({"name": 7, "arguments": {}}, None),
        ({}, None),
    ],
)
def test_a_call_through_tool_call_means_another_one(arguments: dict, meant: tuple | None) -> None:
    assert inner_call("tool_call", arguments) == meant
    assert meant_arguments("tool_call", arguments) == (arguments if meant is None else meant[1])
    assert inner_call("terminal", arguments) is None
