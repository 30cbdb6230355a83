"""Conversion of stored messages to the events that the terminal, service and editors replay. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from agent.core.attachments import attachments_of
from agent.core.store.branches import OutlineRow
from agent.core.store.nodes import Node
from agent.events import (
    AssistantMessageAdded,
    Event,
    Noticed,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from tools.context import Todo
from tools.inner_call import inner_call, meant_arguments
from tools.registry import Registry
from tools.results import Display, Outcome
from tools.text.safe_text import clean

CUT_OFF = "The answer was cut off here."
"""The note below an answer that was stopped, or cut off by a failure or the program's end."""
_OUTCOMES = ("done", "failed", "denied", "interrupted")
_STATUSES = ("pending", "in_progress", "completed", "cancelled")
_QUIET = frozenset({"todos", "mention", "mode", "subagent", "subagent_told", "subagent_end"})
"""Kinds of stored notices that are not lines of the conversation."""
_KINDS = frozenset({"info", "warning", "process", "files", "compaction", "recovery", "store"})

Arguments = Mapping[str, dict[str, Any]]
"""The arguments of the calls of one message, by call id."""


def stored_events(path: Sequence[Node], tools: Registry) -> Iterator[Event]:
    """Yield the events that show the nodes of a path, oldest first, with their `seq` still unset."""
    arguments: Arguments = {}
    for node in path:
        if node.kind == "assistant":
            arguments = arguments_of(node)
        yield from node_events(node, arguments, tools)


def node_events(node: Node, arguments: Arguments, tools: Registry) -> Iterator[Event]:
    """Yield the events that show one node; `arguments` are those of the calls in its message."""
    match node.kind:
        case "user" if node.data.get("origin") != "engine":
            origin = node.data.get("origin")
            yield UserMessageAdded(
                node=node.id,
                text=clean(node.content),
                origin=origin if origin in ("queue", "steer") else "prompt",
                attachments=attachments_of(node.data),
            )
        case "assistant":
            reasoning = node.data.get("reasoning")
            yield AssistantMessageAdded(
                node=node.id,
                text=clean(node.content),
                reasoning=clean(reasoning) if isinstance(reasoning, str) else "",
                calls=tuple(arguments_of(node)),
            )
            if node.data.get("state") == "interrupted":
                yield Noticed(kind="info", text=CUT_OFF, node=node.id)
        case "tool":
            yield from _call_events(node, arguments, tools)
        case "compaction":
            yield Noticed(kind="compaction", text=clean(node.content), node=node.id)
        case "notice" if (kind := node.data.get("kind", "info")) not in _QUIET:
            shown = cast("Any", kind if kind in _KINDS else "info")
            yield Noticed(kind=shown, text=clean(notice_text(node)), node=node.id)
        case _:
            pass


def notice_text(node: Node) -> str:
    """Return the text of a notice as it is shown to the user."""
    return _note_words(str(node.data.get("shown") or node.content))


def _note_words(text: str) -> str:
    """Return a note as the user sees it: a note in brackets, written for the model, is marked as such."""
    return f"Told the model: {text[1:].removesuffix(']')}" if text.startswith("[") else text


def readable_rows(
    rows: Iterable[OutlineRow], tools: Registry, known: Mapping[str, str] = MappingProxyType({})
) -> list[OutlineRow]:
    """Return the rows of a session's tree as they are shown to the user: `tool` becomes a title of the call,
    such as `read a.py`, and notes to the model are marked. `known` maps call ids to titles.
    """
    titles = dict(known)
    made: list[OutlineRow] = []
    for row in rows:
        call, calls = json.loads(row.asked) if row.asked else (None, None)
        if calls:
            titles |= _titles(calls, tools)
        if row.tool:
            row = row._replace(tool=titles.get(str(call)) or _title(row.tool, {}, tools))
        elif row.kind == "notice" or row.origin == "engine":
            row = row._replace(text=_note_words(row.text))
        made.append(row._replace(asked=""))
    return made


def call_titles(message: Node, tools: Registry) -> dict[str, str]:
    """Return the titles of the calls in a message, such as `read src/money.py`, by call id."""
    return _titles(message.data.get("calls"), tools)


def _titles(calls: Any, tools: Registry) -> dict[str, str]:
    made: dict[str, str] = {}
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            name, given = str(call.get("name")), _object(call.get("arguments"))
            made[str(call.get("id"))] = _title(*(inner_call(name, given) or (name, given)), tools)
    return made


def _title(tool: str, arguments: dict[str, Any], tools: Registry) -> str:
    display = _display(tool, arguments, None, tools)
    return f"{display.verb} {display.subject}".strip()


def arguments_of(message: Node) -> Arguments:
    """Return the arguments of the calls in a message, by call id."""
    calls = message.data.get("calls")
    return {
        str(call.get("id")): meant_arguments(str(call.get("name")), _object(call.get("arguments")))
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    }


def _call_events(node: Node, arguments: Arguments, tools: Registry) -> Iterator[Event]:
    id, tool = str(node.data.get("call", "")), str(node.data.get("tool", ""))
    outcome, seconds = node.data.get("outcome"), node.data.get("seconds")
    given, result = arguments.get(id, {}), _object(node.content)
    display = _display(tool, given, result, tools)
    yield ToolStarted(call=clean(id), tool=clean(tool), arguments=given, display=display)
    yield ToolFinished(
        node=node.id,
        call=clean(id),
        tool=clean(tool),
        outcome=cast("Outcome", outcome) if outcome in _OUTCOMES else "interrupted",
        seconds=float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        result=clean(node.content),
        display=display,
    )
    if tool.startswith("todo_") and isinstance(todos := result.get("todos"), list):
        yield TodosChanged(items=_todos(todos))


def _display(tool: str, arguments: dict[str, Any], result: dict[str, Any] | None, tools: Registry) -> Display:
    """Return the display of a call; a plain one if its tool is gone or has changed."""
    entry = tools.get(tool)
    if entry is not None and entry.describe is not None:
        try:
            return entry.describe(arguments, result)
        except Exception:
            pass
    subject = clean(next((str(value) for value in arguments.values()), ""))[:100]
    return Display(clean(tool) or "tool", subject, clean(str((result or {}).get("error", "")))[:200])


def _todos(items: Sequence[Any]) -> tuple[Todo, ...]:
    return tuple(
        Todo(clean(str(each.get("id", ""))), clean(str(each.get("content", ""))), each["status"])
        for each in items
        if isinstance(each, dict) and each.get("status") in _STATUSES
    )


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
