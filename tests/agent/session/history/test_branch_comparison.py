"""Two branches against each other, from nodes and steps alone."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from agent.core.store.nodes import Node
from agent.model.catalog import ModelInfo
from agent.session.history.branch_comparison import TESTS, compare
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step

IDS = count(1)


def node(kind: str, text: str = "", **data: Any) -> Node:
    return Node(next(IDS), "s", None, kind, 0.0, text, data)


def terminal(command: str, code: int | None, outcome: str = "done") -> list[Node]:
    call = {"id": f"c{next(IDS)}", "name": "terminal", "arguments": json.dumps({"command": command})}
    return [
        node("assistant", calls=[call]),
        node("tool", json.dumps({"exit_code": code}), call=call["id"], tool="terminal", outcome=outcome),
    ]


def step(number: int, path: str, before: str | None, after: str | None) -> Step:
    entries = [
        None if digest is None else PathEntry(PathKind.FILE, 0o644, digest=digest)
        for digest in (before, after)
    ]
    return Step(number, "tool", "s", "", "", 0.0, "/", (PathChange(path, *entries),))


def test_branches_part_after_the_last_node_they_share() -> None:
    shared = [node("user", "one"), node("assistant", "two")]
    left, right = [node("user", "left")], [node("user", "right"), node("assistant", "more")]
    found = compare(("main", [*shared, *left]), ("side", [*shared, *right]), ())
    assert found.parting is shared[-1]
    assert (found.left.nodes, found.right.nodes) == (tuple(left), tuple(right))
    assert (found.left.head, found.right.head) == ("main", "side")


def test_branches_that_share_nothing_part_at_the_beginning() -> None:
    found = compare(("main", []), ("side", [node("user", "x")]), ())
    assert found.parting is None and found.left.nodes == () and len(found.right.nodes) == 1


def test_a_branch_that_goes_on_from_the_other_parts_at_its_end() -> None:
    shared = [node("user", "one")]
    found = compare(("main", shared), ("side", [*shared, node("user", "two")]), ())
    assert found.parting is shared[0] and found.left.nodes == ()


def test_files_are_those_that_differ_between_the_ends_of_both() -> None:
    shared = [node("user", "one", step=0)]
    steps = [step(1, "a", None, "x"), step(2, "a", "x", None), step(3, "b", None, "y")]
    left, right = [*shared, node("tool", step=1)], [*shared, node("tool", step=3), node("assistant")]
    found = compare(("main", left), ("side", right), steps)
    assert [(c.path, c.before is None, c.after is None) for c in found.files] == [
        ("a", False, True),
        ("b", True, False),
    ]


def test_tokens_and_cost_count_what_each_branch_used_alone() -> None:
    shared = [node("assistant", usage={"input": 1_000, "output": 1_000}, model="p/m")]
    left = [
        node("assistant", usage={"input": 100, "output": 10}, model="p/m"),
        node("assistant", usage={"input": 200, "output": 20}, model="p/m"),
    ]
    right = [node("assistant", usage={"input": None, "output": 7}, model="p/m")]
    info = ModelInfo(input_price=10.0, output_price=100.0, cached_price=1.0)
    found = compare(("l", [*shared, *left]), ("r", [*shared, *right]), (), {"p/m": info}.get)
    assert (found.left.read, found.left.written) == (300, 30)
    assert found.left.cost == pytest.approx((300 * 10 + 30 * 100) / 1e6)
    assert (found.right.read, found.right.written, found.right.cost) == (None, 7, None)


def test_the_last_tests_tell_how_they_ended() -> None:
    path = [*terminal("pytest -q", 1), *terminal("cd api && make test", 0), *terminal("ls", 3)]
    found = compare(("main", path), ("side", []), ())
    assert found.left.tests is not None and found.right.tests is None
    assert (found.left.tests.command, found.left.tests.outcome) == ("cd api && make test", "passed")


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        (2, "failed", "failed with 2"),
        (1, "done", "failed with 1"),
        (None, "interrupted", "interrupted"),
        (None, "done", "done"),
    ],
)
def test_tests_that_did_not_pass_say_so(code: int | None, outcome: str, words: str) -> None:
    found = compare(("main", terminal("python -m pytest", code, outcome)), ("side", []), ())
    assert found.left.tests is not None and found.left.tests.outcome == words


@pytest.mark.parametrize(
    "command",
    ["pytest", ".venv/bin/pytest -x", "npm test", "npm run test", "cargo test --all", "go test ./..."],
)
def test_commands_that_run_tests_are_known(command: str) -> None:
    assert TESTS.search(command)


@pytest.mark.parametrize(
    "command", ["ls tests", "cat pytest.ini", "git commit -m 'make tests green'", "make"]
)
def test_other_commands_are_not_taken_for_tests(command: str) -> None:
    assert not TESTS.search(command)


def test_damaged_messages_compare_as_far_as_they_can_be_read() -> None:
    odd = [
        node("assistant", calls=[3, {"id": 1}], usage=7, aside=5),
        node("tool", "{", call=None, outcome="done"),
    ]
    found = compare(("main", odd), ("side", []), ())
    assert found.left.tests is None and found.left.written is None
