"""Messages a provider accepts, made from stored nodes, whatever was interrupted.

Pure: the same path of nodes always gives the same messages, so a resumed
session sends the bytes it sent before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.core.attachments import attachments_of
from agent.core.messages import Image, Message, Sealed, SealedPart, ToolCall
from agent.core.store.nodes import Node
from agent.knowledge.context.fold import fold_text, newest_fold

LOST_RESULT = '{"error": "Interrupted: no result of this call was recorded; its effects may be partial."}'
CHARACTERS = "content_characters"
"""Where a node in memory whose content was let go of tells how long that was."""
REFUSED_MESSAGE = "[The provider refused what stood here; it is left out.]"
REFUSED_RESULT = '{"left_out": "The provider refused this result; do not ask for it again."}'
CUT_MARK = "\n[This answer was interrupted here.]"


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """One message and the node it came from (0 for one that was filled in)."""

    node: int
    message: Message


def conversation(path: Sequence[Node]) -> list[MessageHistory]:
    """The messages of a path from root to head, without the system prompt.

    Every call is answered exactly once, directly behind the message that made
    it and in its order; results without a call and empty messages are left out.
    Compactions on the path are applied; what a provider refused is left out.
    """
    masked, refused = masked_nodes(path), refused_nodes(path)
    start = elided_up_to(path)
    turned: list[MessageHistory] = []
    if (folded := newest_fold(path)) is not None:
        turned.append(MessageHistory(folded[0].id, Message("user", fold_text(folded[1], path))))
    elif start:
        count = sum(node.kind in ("user", "assistant", "tool") for node in path if node.id < start)
        turned.append(MessageHistory(0, Message("user", elision_note(count))))
    kept = [node for node in path if node.id >= start]
    for index, node in enumerate(kept):
        if node.kind == "user" or (node.kind == "notice" and node.data.get("to_model")):
            said = Message("user", node.content, images=tuple(map(Image, attachments_of(node.data))))
            turned.append(
                MessageHistory(node.id, Message("user", REFUSED_MESSAGE) if node.id in refused else said)
            )
        elif node.kind == "assistant":
            turned.extend(_exchange(node, _results(kept, index + 1), masked, refused))
    return turned


def elision_note(count: int) -> str:
    """What stands in for `count` messages that no longer fit."""
    return f"[{count} earlier messages are left out to make room; session_search finds them.]"


def masked_result(tool: str, characters: int, node: int) -> str:
    """What stands in for a masked tool result."""
    size = f"{characters:,} characters"
    fetched = f"recall_folded shows it: id {node}"
    return json.dumps({"masked": f"Result of {tool} left out to make room ({size}; {fetched})."})


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


def sealed_data(sealed: Sealed) -> dict[str, Any]:
    """What an assistant node keeps as `sealed`; `sealed_of` reads it."""
    parts = [{"data": part.data, "text": part.text, "calls": part.calls} for part in sealed.parts]
    return {"format": sealed.format, "prefix": sealed.prefix, "parts": parts}


def sealed_of(node: Node) -> Sealed | None:
    """The sealed parts of an assistant node; None if there are none or they are not whole."""
    kept = node.data.get("sealed")
    if not isinstance(kept, Mapping):
        return None
    try:
        parts = tuple(
            SealedPart(str(part["data"]), int(part["text"]), int(part["calls"])) for part in kept["parts"]
        )
        return Sealed(str(kept["format"]), str(kept["prefix"]), parts)
    except (KeyError, TypeError, ValueError):
        return None


def _exchange(
    node: Node, results: Mapping[str, Node], masked: frozenset[int], refused: frozenset[int]
) -> list[MessageHistory]:
    """An assistant message and the results of its calls."""
    text = node.content
    if node.data.get("state") == "interrupted" and text:
        text += CUT_MARK
    calls = calls_of(node)
    if not text and not calls and node.data.get("finish") != "pause":
        return []
    shown = calls
    if node.id in masked:
        shown = tuple(replace(call, arguments=masked_arguments(call.arguments)) for call in calls)
    said = Message(
        "assistant",
        text,
        shown,
        reasoning=node.data.get("reasoning", ""),
        model=str(node.data.get("model", "")),
        sealed=sealed_of(node),
    )
    turned = [MessageHistory(node.id, said)]
    for call in calls:
        result = results.get(call.id)
        if result is None:
            turned.append(MessageHistory(0, Message("tool", LOST_RESULT, call_id=call.id, name=call.name)))
        else:
            content = result.content
            if result.id in masked:
                characters = result.data.get(CHARACTERS, len(result.content))
                content = masked_result(call.name, characters, result.id)
            if result.id in refused:
                content = REFUSED_RESULT
            turned.append(
                MessageHistory(result.id, Message("tool", content, call_id=call.id, name=call.name))
            )
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


def refused_nodes(path: Sequence[Node]) -> frozenset[int]:
    """Messages and results that a provider refused for what they say."""
    notes = (node.data for node in path if node.kind == "notice" and node.data.get("kind") == "failure")
    return frozenset(number for data in notes for number in data.get("refused", ()))


def elided_up_to(path: Sequence[Node]) -> int:
    """The first node that is still sent whole; 0 if all are."""
    cuts = [
        node.data.get("from", 0)
        for node in path
        if node.kind == "compaction" and node.data.get("stage") in ("elide", "fold")
    ]
    return max(cuts, default=0)
