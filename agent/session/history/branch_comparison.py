"""Comparison of two branches of a session: the node at which they diverge, and what happened after it on
each. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.core.store.nodes import Node
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import PathChange, Step

if TYPE_CHECKING:
    from agent.model.catalog import ModelInfo

TESTS = re.compile(
    r"(?:^|[\s;&|(/])"
    r"(?:(?:pytest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|unittest)(?![\w.-])"
    r"|(?:npm|yarn|pnpm|bun|cargo|go|dotnet|mvn|gradle|gradlew|make|just|mix|swift|zig(?: build)?|rake|deno)"
    r"(?: run)?(?: -\S+)* (?:test|tests|check)\b)"
)
"""The pattern of commands that run tests."""


Prices = Callable[[str], "ModelInfo | None"]
"""A function from a model's name, as stored with its messages, to its info with prices; None if unknown."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """The last command on a branch that ran tests, and its outcome."""

    command: str
    outcome: str
    """`passed`, `failed` with the exit code, or another outcome of the call."""


@dataclass(frozen=True, slots=True)
class BranchSide:
    """The part of one of two branches after the node at which they diverge."""

    head: str
    nodes: tuple[Node, ...]
    """The nodes that only this branch has, oldest first."""
    position: int
    """The position of its files: the number of a step."""
    written: int | None
    """Tokens that the model wrote; None if no provider reported them."""
    read: int | None
    """Tokens that were sent to the model."""
    cost: float | None
    """US dollars; None if a price is unknown."""
    tests: TestRun | None


@dataclass(frozen=True, slots=True)
class BranchComparison:
    """The comparison of two branches."""

    parting: Node | None
    """The last node they share; None when they share nothing."""
    left: BranchSide
    right: BranchSide
    files: tuple[PathChange, ...]
    """The changes that lead from the files of the left branch to those of the right branch."""


def compare(
    left: tuple[str, Sequence[Node]],
    right: tuple[str, Sequence[Node]],
    steps: Sequence[Step],
    prices: Prices = lambda _model: None,
) -> BranchComparison:
    """Return a comparison of two branches, each given by its name and its path from the root."""
    shared = 0
    for one, other in zip(left[1], right[1], strict=False):
        if one.id != other.id:
            break
        shared += 1
    sides = [_side(head, path, shared, prices) for head, path in (left, right)]
    files = state_listings.difference(steps, sides[0].position, sides[1].position)
    return BranchComparison(left[1][shared - 1] if shared else None, sides[0], sides[1], files)


def _side(head: str, path: Sequence[Node], shared: int, prices: Prices) -> BranchSide:
    own = tuple(path[shared:])
    found = (step for node in reversed(path) if isinstance(step := node.data.get("step"), int))
    usages = list(_usages(own))
    return BranchSide(
        head,
        own,
        next(found, 0),
        _total(usages, "output"),
        _total(usages, "input"),
        _cost(usages, prices),
        _last_tests(own),
    )


def _usages(nodes: Sequence[Node]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the model and usage of each request made for these messages."""
    for node in nodes:
        if node.kind != "assistant":
            continue
        aside = node.data.get("aside")
        for each in (node.data, *(aside if isinstance(aside, list) else ())):
            usage = each.get("usage") if isinstance(each, Mapping) else None
            if isinstance(usage, Mapping):
                yield str(each.get("model", "")), usage


def _total(usages: Sequence[tuple[str, Mapping[str, Any]]], name: str) -> int | None:
    counts = [count for _, usage in usages if isinstance(count := usage.get(name), int)]
    return sum(counts) if counts else None


def _cost(usages: Sequence[tuple[str, Mapping[str, Any]]], prices: Prices) -> float | None:
    from agent.core.event_data import Usage
    from agent.model.usage import COUNTS, request_cost

    total = 0.0
    for model, usage in usages:
        info = prices(model)
        counted = Usage(**{name: usage.get(name) for name in COUNTS})
        cost = None if info is None else request_cost(counted, info)
        if cost is None:
            return None
        total += cost
    return total


def _last_tests(nodes: Sequence[Node]) -> TestRun | None:
    """Return the last command that ran tests, with its outcome; None if there is none."""
    commands = {
        str(call.get("id")): _command(call.get("arguments"))
        for node in nodes
        if node.kind == "assistant"
        for call in _calls(node)
        if call.get("name") == "terminal"
    }
    for node in reversed(nodes):
        command = commands.get(str(node.data.get("call", ""))) if node.kind == "tool" else None
        if command and TESTS.search(command):
            return TestRun(command, _outcome(node))
    return None


def _calls(node: Node) -> Iterator[Mapping[str, Any]]:
    calls = node.data.get("calls")
    yield from (call for call in calls if isinstance(call, Mapping)) if isinstance(calls, list) else ()


def _command(arguments: Any) -> str:
    command = _object(arguments).get("command")
    return command if isinstance(command, str) else ""


def _outcome(node: Node) -> str:
    ended = str(node.data.get("outcome", ""))
    code = _object(node.content).get("exit_code")
    if ended not in ("done", "failed") or not isinstance(code, int):
        return ended or "unknown"
    return "passed" if code == 0 else f"failed with {code}"


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}
