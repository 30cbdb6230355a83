"""Shortening of a trajectory to a budget of tokens: long results first, then exchanges in its middle. Pure.

The system prompt, what a person said, and the last exchanges stay, because they say what was to be done and
how it ended. Results of the last exchanges are cut where nothing else is left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from agent.core.store.nodes import Node, calls_of

PER_TOKEN = 4
"""Characters that count as one token."""
KEPT = 4
"""Exchanges at the end that stay whole."""
_STEPS = (4_000, 1_000, 200)
"""Characters of a result that stay, tried in turn."""


def tokens_of(nodes: Sequence[Node]) -> int:
    """Tokens of a trajectory, estimated: texts, reasoning and calls."""
    return sum(map(_size, nodes)) // PER_TOKEN


def shortened(nodes: Sequence[Node], most: int) -> list[Node]:
    """As much of a trajectory as fits `most` tokens. What has to stay may still be more than that."""
    found = list(nodes)
    tail = _tail(found)
    for length in _STEPS:
        if tokens_of(found) <= most:
            return found
        found = [_cut(node, length) if place < tail else node for place, node in enumerate(found)]
    found = _without_exchanges(found, tail, most)
    for length in _STEPS:
        if tokens_of(found) <= most:
            return found
        found = [_cut(node, length) for node in found]
    return found


def _without_exchanges(found: list[Node], tail: int, most: int) -> list[Node]:
    """Leave exchanges before `tail` out, oldest first, until the rest fits; a notice tells how many."""
    surplus = tokens_of(found) - most
    left: set[int] = set()
    for exchange in _exchanges(found[:tail]):
        if surplus <= 0:
            break
        surplus -= tokens_of([found[place] for place in exchange])
        left.update(exchange)
    if not left:
        return found
    first = min(left)
    note = replace(
        found[first],
        kind="notice",
        content=f"[{len(left)} entries are left out here.]",
        data={"to_model": True},
    )
    kept = [node for place, node in enumerate(found) if place not in left or place == first]
    return [note if node is found[first] else node for node in kept]


def _size(node: Node) -> int:
    return (
        len(node.content)
        + len(str(node.data.get("reasoning") or ""))
        + sum(len(name) + len(arguments) for name, arguments in calls_of(node.data))
    )


def _tail(nodes: Sequence[Node]) -> int:
    """Where the exchanges begin that stay whole."""
    answers = [place for place, node in enumerate(nodes) if node.kind == "assistant"]
    return answers[-KEPT] if len(answers) >= KEPT else (answers[0] if answers else len(nodes))


def _cut(node: Node, length: int) -> Node:
    if node.kind != "tool" or len(node.content) <= length:
        return node
    half = length // 2
    shown = {"shortened": node.content[:half] + " … " + node.content[-half:], "characters": len(node.content)}
    return replace(node, content=json.dumps(shown, ensure_ascii=False))


def _exchanges(nodes: Sequence[Node]) -> list[list[int]]:
    """Each answer with calls together with its results, oldest first."""
    found: list[list[int]] = []
    for place, node in enumerate(nodes):
        if node.kind == "assistant":
            found.append([place])
        elif node.kind == "tool" and found:
            found[-1].append(place)
    return found
