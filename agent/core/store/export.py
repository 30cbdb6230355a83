"""Export of a session for other programs: one node per line, or a ShareGPT trajectory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agent.core.attachments import attachments_of
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.nodes import MAIN, BranchHead, Node, Session, calls_of, storable
from agent.core.store.store import Store
from agent.errors import StoreError
from tools.text.redact import redact_data

SEALED = "sealed"
"""The key in an assistant node's data for the parts that only its provider can read (see
`agent.knowledge.context.message_history.sealed_data`).
"""
OPAQUE = frozenset({"data", "encrypted_content", "id", "signature", "type"})
"""The fields of sealed parts in which no secret is looked for: signatures, encrypted text and ids."""


def line(record: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Return a record as one line of JSON, without the line feed. It is always valid UTF-8.

    `ascii_only` escapes all other characters, because some of them control a terminal.
    """
    text = json.dumps(record, ensure_ascii=ascii_only)
    return text if storable(text) == text else json.dumps(record)


def portable_line(record: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Return a record as one line of JSON for every parser: lone surrogates become U+FFFD."""
    text = storable(json.dumps(record, ensure_ascii=False))
    return json.dumps(json.loads(text)) if ascii_only else text


def node_record(node: Node, heads: Iterable[BranchHead] = ()) -> dict[str, Any]:
    """Return a node as JSON-able data, with the names of those branches in `heads` that end at the node."""
    record: dict[str, Any] = {
        "id": node.id,
        "session": node.session,
        "parent": node.parent,
        "kind": node.kind,
        "created": node.created,
        "content": node.content,
        "data": dict(node.data),
    }
    names = sorted(head.name for head in heads if head.node == node.id)
    return record | {"heads": names} if names else record


def mask_node(node: Node, secrets: Mapping[str, str]) -> Node:
    """Return the node for export, with secrets masked in all its texts.

    Sealed parts are unchanged, because providers refuse them if a byte has changed; if one of them contains a
    readable secret, all are left out.
    """
    data = {name: value for name, value in node.data.items() if name != SEALED}
    data = redact_data(data, secrets)
    if SEALED in node.data and not _tells(node.data[SEALED], secrets):
        data[SEALED] = node.data[SEALED]
    return replace(node, content=redact_data(node.content, secrets), data=data)


def _tells(sealed: Any, secrets: Mapping[str, str]) -> bool:
    """Return whether sealed parts contain a secret outside of unreadable fields, or cannot be parsed."""
    try:
        readable = [
            {name: value for name, value in json.loads(part["data"]).items() if name not in OPAQUE}
            for part in sealed["parts"]
        ]
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        return True
    return redact_data(readable, secrets) != readable


def trajectory(session: Session, nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the nodes of a path as a ShareGPT trajectory.

    Reasoning becomes `<think>`, calls `<tool_call>`, results `<tool_response>`; consecutive results are one
    turn. `completed` means that the last message is a complete answer without calls.
    """
    turns: list[dict[str, str]] = []
    for node in nodes:
        speaker, value = _turn(node)
        if speaker == "tool" and turns and turns[-1]["from"] == "tool":
            turns[-1]["value"] += "\n" + value
        else:
            turns.append({"from": speaker, "value": value})
    return {
        "conversations": turns,
        "timestamp": datetime.fromtimestamp(session.created, UTC).isoformat(timespec="seconds"),
        "model": session.model,
        "completed": is_complete(nodes),
    }


def _turn(node: Node) -> tuple[str, str]:
    match node.kind:
        case "user":
            return "human", said_to_model(node)
        case "assistant":
            return "gpt", _answer(node)
        case "tool":
            response = {
                "tool_call_id": node.data.get("call", ""),
                "name": node.data.get("tool", ""),
                "content": value_of(node.content),
            }
            return "tool", _tag_text("tool_response", _json(response))
        case _:
            return "system", node.content


def said_to_model(node: Node) -> str:
    """Return the text of a message, with one more line for each attached image."""
    images = [f"[image: {each.name} sha256:{each.sha256}]" for each in attachments_of(node.data)]
    return "\n".join([node.content, *images]) if images else node.content


def _answer(node: Node) -> str:
    parts: list[str] = []
    if reasoning := node.data.get("reasoning"):
        parts.append(_tag_text("think", str(reasoning)))
    if node.content:
        parts.append(node.content)
    for name, arguments in calls_of(node.data):
        parts.append(_tag_text("tool_call", _json({"name": name, "arguments": value_of(arguments)})))
    return "\n".join(parts)


def is_complete(nodes: Sequence[Node]) -> bool:
    """Return whether the last message of a path is a complete answer of the model without tool calls."""
    said = [node for node in nodes if node.kind in ("user", "assistant", "tool")]
    return bool(said) and said[-1].is_whole_answer


def _tag_text(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def value_of(text: str) -> Any:
    """Return JSON text as data, so that it is not escaped twice.

    Other text is returned unchanged; NaN, Infinity and numbers too large for a float are not JSON either.
    """
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large")
    return number


async def copy_session(store: Store, session: str) -> str:
    """Copy the most recently used branch into a new session; return its id. Raises `StoreError`."""
    known = await store.session(session)
    heads = await store.heads(session)
    path = await store.path(session, heads[0].name) if heads else []
    if not path:
        raise StoreError("Nothing was said in this session yet; begin a new one instead.")
    nodes = [
        NodeRecord(each.id, each.parent, each.kind, each.created, each.content, each.data) for each in path
    ]
    record = SessionRecord(
        known.id, nodes, {MAIN: path[-1].id}, known.title, workspace=known.workspace, model=known.model
    )
    (copied,) = await store.import_sessions([record], copied=True)
    return copied.session
