"""From stored nodes to a conversation a provider accepts, whatever was interrupted.

Pure: the same path of nodes always gives the same messages, so a resumed
session sends the bytes it sent before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.attachments import attachments_of
from agent.messages import Image, Message, ToolCall
from agent.store.nodes import Node

LOST_RESULT = '{"error": "Interrupted: no result of this call was recorded; its effects may be partial."}'
CHARACTERS = "content_characters"
"""Where a node in memory whose content was let go of tells how long that was."""
CUT_MARK = "\n[This answer was interrupted here.]"


@dataclass(frozen=True, slots=True)
class Turned:
    """One message and the node it came from (0 for one that was filled in)."""

    node: int
    message: Message


def conversation(path: Sequence[Node]) -> list[Turned]:
    """The messages of a path from root to head, without the system prompt.

    Every call is answered exactly once, directly behind the message that made
    it and in its order; results without a call and empty messages are left out.
    Compactions on the path are applied.
    """
    masked = masked_nodes(path)
    start = elided_up_to(path)
    turned: list[Turned] = []
    if start:
        count = sum(node.kind in ("user", "assistant", "tool") for node in path if node.id < start)
        turned.append(Turned(0, Message("user", elision_note(count))))
    kept = [node for node in path if node.id >= start]
    for index, node in enumerate(kept):
        if node.kind == "user":
            images = tuple(Image(each) for each in attachments_of(node.data))
            turned.append(Turned(node.id, Message("user", node.content, images=images)))
        elif node.kind == "notice" and node.data.get("to_model"):
            turned.append(Turned(node.id, Message("user", node.content)))
        elif node.kind == "assistant":
            turned.extend(_exchange(node, _results(kept, index + 1), masked))
    return turned


def elision_note(count: int) -> str:
    """What stands in for `count` messages that no longer fit."""
    return f"[{count} earlier messages are left out to make room; session_search finds them.]"


def masked_result(tool: str, characters: int) -> str:
    """What stands in for a masked tool result."""
    size = f"{characters:,} characters"
    return json.dumps(
        {"masked": f"Result of {tool} left out to make room ({size}). Call again if it is needed."}
    )


def masked_arguments(arguments: str) -> str:
    """Arguments of a call with long texts shortened; still a JSON object."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    short = {
        name: f"[{len(value):,} characters left out]"
        if isinstance(value, str) and len(value) > 200
        else value
        for name, value in parsed.items()
    }
    return json.dumps(short, ensure_ascii=False)


def calls_of(node: Node) -> tuple[ToolCall, ...]:
    """The tool calls an assistant node makes."""
    return tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in node.data.get("calls", ()))


def _exchange(node: Node, results: Mapping[str, Node], masked: frozenset[int]) -> list[Turned]:
    """An assistant message and the results of its calls."""
    text = node.content
    if node.data.get("state") == "interrupted" and text:
        text += CUT_MARK
    calls = calls_of(node)
    if not text and not calls:
        return []
    shown = calls
    if node.id in masked:
        shown = tuple(replace(call, arguments=masked_arguments(call.arguments)) for call in calls)
    turned = [Turned(node.id, Message("assistant", text, shown, reasoning=node.data.get("reasoning", "")))]
    for call in calls:
        result = results.get(call.id)
        if result is None:
            turned.append(Turned(0, Message("tool", LOST_RESULT, call_id=call.id, name=call.name)))
        else:
            content = result.content
            if result.id in masked:
                content = masked_result(call.name, result.data.get(CHARACTERS, len(result.content)))
            turned.append(Turned(result.id, Message("tool", content, call_id=call.id, name=call.name)))
    return turned


def _results(nodes: Sequence[Node], start: int) -> dict[str, Node]:
    """Tool nodes from index `start` to the next assistant message, by call id."""
    results: dict[str, Node] = {}
    for index in range(start, len(nodes)):
        node = nodes[index]
        if node.kind == "assistant":
            break
        if node.kind == "tool":
            results.setdefault(str(node.data.get("call", "")), node)
    return results


def masked_nodes(path: Sequence[Node]) -> frozenset[int]:
    """The results and calls that are sent shortened."""
    masks = (node.data for node in path if node.kind == "compaction" and node.data.get("stage") == "mask")
    return frozenset(number for data in masks for number in data.get("nodes", ()))


def elided_up_to(path: Sequence[Node]) -> int:
    """The first node that is still sent; 0 if all are."""
    cuts = [
        node.data.get("from", 0)
        for node in path
        if node.kind == "compaction" and node.data.get("stage") == "elide"
    ]
    return max(cuts, default=0)
