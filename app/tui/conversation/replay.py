"""A stored conversation as items of the transcript, for a resumed session."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from agent.core.attachments import attachments_of
from agent.core.attachments import display_text as shown_with
from agent.core.store.nodes import Node
from app.tui.conversation.attachments import sources
from app.tui.conversation.bridge import end_notice
from tools.inner_call import meant_arguments
from tools.registry import Registry
from tools.results import Display, Outcome
from tools.text.safe_text import clean
from widgets.transcript.parts import (
    AnswerItem,
    CallItem,
    Item,
    NoticeItem,
    ReasoningItem,
    UserItem,
    source_of,
)

AGENT_ENDED = "subagent_end"
AGENT_NOTES = frozenset({"subagent", "subagent_told", AGENT_ENDED})
"""Kinds of notices about the work of a subagent; see `agent.session.subagents`."""
CUT_OFF = "The answer was cut off here."
"""The note below an answer that was stopped, or cut off by a failure or the program's end."""
OUTCOMES: frozenset[str] = frozenset({"done", "failed", "denied", "interrupted"})


def newest_first(path: Sequence[Node], tools: Registry) -> Iterator[Item]:
    """Yield the items of the path as they looked live, from the end upwards. Items are made on demand."""
    asked, arguments = len(path), dict[str, dict[str, Any]]()
    for at in range(len(path) - 1, -1, -1):
        node = path[at]
        if node.kind == "tool" and asked > at:
            asked = _asked_by(path, at)
            arguments = dict(_calls(path[asked].data.get("calls"))) if asked >= 0 else {}
        if node.kind == "compaction":
            yield _compaction(node, path[:at])
            continue
        yield from reversed(_items_of(node, arguments, tools))


def call_at(path: Sequence[Node], at: int, tools: Registry) -> CallItem:
    """Return the call whose result is at an index of the path."""
    asked = _asked_by(path, at)
    arguments = dict(_calls(path[asked].data.get("calls"))) if asked >= 0 else {}
    return _call(path[at], arguments, tools)


def call_in_full(path: Sequence[Node], call: str, tools: Registry) -> str:
    """Return arguments and result of a call on the path; empty if it is not on the path."""
    for at in range(len(path) - 1, -1, -1):
        if path[at].kind == "tool" and path[at].data.get("call") == call:
            return source_of(next(newest_first(path[: at + 1], tools)))
    return ""


def _items_of(node: Node, arguments: Mapping[str, dict[str, Any]], tools: Registry) -> list[Item]:
    """Return the items of one node, top to bottom."""
    match node.kind:
        case "user" if node.data.get("origin") != "engine":
            attached = attachments_of(node.data)
            said = shown_with(clean(node.content), attached)
            return [UserItem(said, node.id, str(node.data.get("origin", "prompt")), sources(attached))]
        case "assistant":
            shown: list[Item] = []
            reasoning = node.data.get("reasoning")
            if isinstance(reasoning, str) and reasoning.strip():
                shown.append(ReasoningItem(clean(reasoning)))
            if node.content.strip():
                shown.append(AnswerItem(clean(node.content), node.id))
            if node.data.get("state") == "interrupted":
                shown.append(NoticeItem("info", CUT_OFF))
            return shown
        case "tool":
            return [_call(node, arguments, tools)]
        case "notice" if (kind := node.data.get("kind")) in AGENT_NOTES:
            # An agent's task is its first message, later messages follow, its report is the last.
            if kind != AGENT_ENDED:
                return []
            return [
                NoticeItem(*end_notice(str(node.data.get("outcome")), clean(str(node.data.get("error", "")))))
            ]
        case "notice" if node.data.get("kind") not in ("todos", "mention"):
            return [NoticeItem(str(node.data.get("kind", "info")), clean(node.content))]
        case _:
            return []


def _compaction(node: Node, before: Sequence[Node]) -> NoticeItem:
    """Return the line of a compaction, with the summary that the model reads since then."""
    from agent.knowledge.context.message_history import folded_into

    return NoticeItem("compaction", clean(node.content), clean(folded_into(node, before)))


def _asked_by(path: Sequence[Node], at: int) -> int:
    """Return the index of the message that a result answers; -1 if there is none."""
    while at >= 0 and path[at].kind != "assistant":
        at -= 1
    return at


def _calls(calls: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            arguments = _object(call.get("arguments"))
            yield str(call.get("id")), meant_arguments(str(call.get("name")), arguments)


def _call(node: Node, arguments: Mapping[str, dict[str, Any]], tools: Registry) -> CallItem:
    id, tool = str(node.data.get("call", "")), str(node.data.get("tool", ""))
    outcome, seconds = node.data.get("outcome"), node.data.get("seconds")
    given = arguments.get(id, {})
    return CallItem(
        id,
        clean(tool),
        display_of(tool, given, _object(node.content), tools),
        given,
        cast(Outcome, outcome) if outcome in OUTCOMES else "interrupted",
        float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        clean(node.content),
        files=files if isinstance(files := node.data.get("files"), int) else 0,
    )


def display_of(tool: str, arguments: dict[str, Any], result: dict[str, Any], tools: Registry) -> Display:
    """Return the display of a call; a plain one if its tool is gone or has changed."""
    entry = tools.get(tool)
    if entry is not None and entry.describe is not None:
        try:
            return entry.describe(arguments, result)
        except Exception:
            pass
    subject = clean(next((str(value) for value in arguments.values()), ""))[:100]
    return Display(clean(tool) or "tool", subject, clean(str(result.get("error", "")))[:200])


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
