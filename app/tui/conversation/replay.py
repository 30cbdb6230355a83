"""A stored conversation as transcript items, for a resumed session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent.core.attachments import display_text
from agent.core.store.nodes import Node
from agent.errors import StoreError
from agent.events import AssistantMessageAdded, Noticed, ToolFinished, ToolStarted, UserMessageAdded
from agent.session.conversation.stored_events import Arguments, arguments_of, node_events
from app.tui.conversation.attachments import sources
from app.tui.conversation.bridge import end_notice
from tools.command_name import as_typed
from tools.registry import Registry
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


def newest_first(path: Sequence[Node], tools: Registry) -> Iterator[Item]:
    """Yield the items of the path as they were shown live, newest first. Items are made on demand.

    If older nodes cannot be read, the last item is an error notice.
    """
    try:
        yield from _items_backwards(path, tools)
    except StoreError as error:
        yield NoticeItem("error", as_typed(str(error)))


def _items_backwards(path: Sequence[Node], tools: Registry) -> Iterator[Item]:
    asked = len(path)
    arguments: Arguments = {}
    for at in range(len(path) - 1, -1, -1):
        node = path[at]
        if node.kind == "tool" and asked > at:
            asked = _asked_by(path, at)
            arguments = arguments_of(path[asked]) if asked >= 0 else {}
        if node.kind == "compaction":
            yield _compaction(node, path[:at])
            continue
        yield from reversed(_items_of(node, arguments, tools))


def call_at(path: Sequence[Node], at: int, tools: Registry) -> CallItem:
    """Return the call whose result is at index `at` of the path."""
    asked = _asked_by(path, at)
    arguments = arguments_of(path[asked]) if asked >= 0 else {}
    return next(each for each in _items_of(path[at], arguments, tools) if isinstance(each, CallItem))


def call_in_full(path: Sequence[Node], call: str, tools: Registry) -> str:
    """Return arguments and result of a call as text; empty if it is not on the path."""
    for at in range(len(path) - 1, -1, -1):
        if path[at].kind == "tool" and path[at].data.get("call") == call:
            return source_of(next(newest_first(path[: at + 1], tools)))
    return ""


def _items_of(node: Node, arguments: Arguments, tools: Registry) -> list[Item]:
    """Return the items of one node, top to bottom."""
    kind = str(node.data.get("kind", "info"))
    if node.kind == "notice" and kind == AGENT_ENDED:
        # An agent's task is its first message, later messages follow, its report is the last.
        why = clean(str(node.data.get("error", "")))
        return [NoticeItem(*end_notice(str(node.data.get("outcome")), why))]
    items: list[Item] = []
    given: dict[str, Any] = {}
    for event in node_events(node, arguments, tools):
        match event:
            case UserMessageAdded():
                said, origin = display_text(event.text, event.attachments), event.origin
                items.append(UserItem(said, node.id, origin, sources(event.attachments)))
            case AssistantMessageAdded():
                if event.reasoning.strip():
                    items.append(ReasoningItem(event.reasoning))
                if event.text.strip():
                    items.append(AnswerItem(event.text, node.id))
            case ToolStarted():
                given = event.arguments
            case ToolFinished():
                items.append(_call(event, given, node.data.get("files")))
            case Noticed():
                items.append(NoticeItem(kind if node.kind == "notice" else event.kind, as_typed(event.text)))
            case _:
                pass
    return items


def _compaction(node: Node, before: Sequence[Node]) -> NoticeItem:
    """Return the notice of a compaction, with the summary that replaced older messages for the model."""
    from agent.knowledge.context.message_history import folded_into

    return NoticeItem("compaction", clean(node.content), clean(folded_into(node, before)))


def _asked_by(path: Sequence[Node], at: int) -> int:
    """Return the index of the assistant message that made the call; -1 if there is none."""
    while at >= 0 and path[at].kind != "assistant":
        at -= 1
    return at


def _call(event: ToolFinished, given: dict[str, Any], files: object) -> CallItem:
    return CallItem(
        event.call,
        event.tool,
        event.display,
        given,
        event.outcome,
        event.seconds,
        event.result,
        files=files if isinstance(files, int) else 0,
    )
