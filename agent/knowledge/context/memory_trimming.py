"""Trims a path in memory to what requests are made of, and little of what is no longer sent.

The store keeps every node as it is. A compaction names what is left out of
requests; of these nodes only what the conversation is still derived from is held,
so memory is bounded by the model's window and not by the length of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from agent.core.store.nodes import Node
from agent.knowledge.context.fold import newest_fold
from agent.knowledge.context.message_history import CHARACTERS, elided_up_to, masked_arguments, masked_nodes
from agent.knowledge.context.persons_words import is_persons
from agent.knowledge.context.read_ledger import SHOWN

_KEPT = ("call", "kind", "model", "origin", "outcome", "state", "tool", SHOWN, CHARACTERS)
"""Short facts that stay of every node."""


def trimmed(path: Sequence[Node]) -> list[Node]:
    """The path with nodes that are no longer sent reduced to what is still asked of them.

    The conversation that follows from it is the same. The newest system prompt, task list, question and
    answer stay whole, whether they are sent or not.
    """
    start, masked = elided_up_to(path), masked_nodes(path)
    whole = _newest(path) | _carried(path)
    return [node if node.id in whole else _lightened(node, start, masked) for node in path]


def _lightened(node: Node, start: int, masked: frozenset[int]) -> Node:
    if node.kind == "compaction":
        return node
    if node.id < start or (node.id in masked and node.kind == "tool"):
        facts: dict[str, Any] = {name: node.data[name] for name in _KEPT if name in node.data}
        return replace(node, content="", data={CHARACTERS: len(node.content), **facts})
    if node.id in masked and node.kind == "assistant":
        calls = [{**call, "arguments": masked_arguments(call["arguments"])} for call in node.data["calls"]]
        return replace(node, data={**node.data, "calls": calls})
    return node


def _carried(path: Sequence[Node]) -> frozenset[int]:
    """The nodes whose text a fold reads: what the person wrote, and results that are carried whole."""
    if (folded := newest_fold(path)) is None:
        return frozenset()
    fold = folded[1]
    words = (node.id for node in path if is_persons(node) and node.id not in fold.shortened)
    return frozenset((*words, *fold.pinned))


def _newest(path: Sequence[Node]) -> frozenset[int]:
    """The nodes that are asked for by what they are."""
    backwards = path[::-1]
    wanted: tuple[Iterable[Node], ...] = (
        (node for node in backwards if node.kind == "system"),
        (node for node in backwards if node.kind == "user" and node.data.get("origin") != "engine"),
        (node for node in backwards if node.kind == "assistant" and node.content.strip()),
        (node for node in backwards if str(node.data.get("tool", "")).startswith("todo_")),
    )
    return frozenset(node.id for nodes in wanted if (node := next(iter(nodes), None)) is not None)
