"""Reconstruction of events from stored messages, for heads that missed them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent.core.attachments import attachments_of
from agent.core.store.nodes import Node
from agent.events import (
    AssistantMessageAdded,
    Event,
    Noticed,
    ReplyCut,
    RequestResolved,
    TodosChanged,
    ToolFinished,
    TurnEnded,
    UserMessageAdded,
)
from tools.context import Todo
from tools.inner_call import meant_arguments
from tools.registry import Registry
from tools.results import Display, Outcome
from tools.text.safe_text import clean

_OUTCOMES = ("done", "failed", "denied", "interrupted")
_STATUSES = ("pending", "in_progress", "completed", "cancelled")
_QUIET = frozenset({"todos", "mention", "subagent", "subagent_told", "subagent_end"})
"""Kinds of stored notices that are not lines of the conversation."""
_KINDS = frozenset({"info", "warning", "process", "files", "compaction", "recovery", "store"})


def past_events(path: Sequence[Node], tools: Registry) -> Iterator[Event]:
    """Yield the events of a path's nodes, oldest first, without numbers."""
    arguments: dict[str, dict[str, Any]] = {}
    for node in path:
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
                asked = list(_calls(node.data.get("calls")))
                arguments |= {id: given for id, _, given in asked}
                reasoning = node.data.get("reasoning")
                yield AssistantMessageAdded(
                    node=node.id,
                    text=clean(node.content),
                    reasoning=clean(reasoning) if isinstance(reasoning, str) else "",
                    calls=tuple(id for id, _, _ in asked),
                )
                if node.data.get("state") == "interrupted":
                    yield Noticed(kind="info", text="The answer was cut off here.", node=node.id)
            case "tool":
                yield _tool_finished(node, arguments.pop(str(node.data.get("call", "")), {}), tools)
                if str(node.data.get("tool", "")).startswith("todo_"):
                    todos = _object(node.content).get("todos")
                    if isinstance(todos, list):
                        yield TodosChanged(items=_todos(todos))
            case "compaction":
                yield Noticed(kind="compaction", text=clean(node.content), node=node.id)
            case "notice" if (kind := node.data.get("kind", "info")) not in _QUIET:
                told = cast("Any", kind if kind in _KINDS else "info")
                yield Noticed(kind=told, text=clean(node.content), node=node.id)
            case _:
                pass


def closing_events(told: Sequence[Mapping[str, Any]], session: str) -> Iterator[Event]:
    """Yield the events that a killed process could not send, given the last events it sent.

    An unfinished message is cut, requests are cancelled, and the turn is interrupted.
    """
    writing, open_requests, turn = False, dict[str, str](), False
    for event in told:
        kind, is_main = event.get("type"), event.get("agent") == "main"
        match kind:
            case "text" | "reasoning" if is_main:
                writing = True
            case "assistant_message" | "reply_cut" | "turn_ended" if is_main:
                writing = False
                turn = turn and kind != "turn_ended"
            case "turn_started" if is_main:
                turn = True
            case "question" | "approval" | "forecast" | "ceiling":
                open_requests[str(event["id"])] = str(event.get("agent", "main"))
            case "request_resolved":
                open_requests.pop(str(event["id"]), None)
            case "session_opened":
                writing, turn = False, False
                open_requests.clear()
            case _:
                pass
    if writing:
        yield ReplyCut(reason="Hermes was stopped while this was written.")
    for id, agent in open_requests.items():
        yield RequestResolved(agent=agent, id=id, outcome="cancelled")
    if turn:
        yield TurnEnded(
            outcome="interrupted",
            text="",
            session=session,
            usage={},
            error="Hermes was stopped during this turn.",
            exit_code=130,
        )


def waiting_of(told: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the messages still queued after these events, in order.

    A message accepted for storage without a `user_message` event still waits.
    """
    taken: list[str] = []
    waiting: list[str] = []
    for event in told:
        match event.get("type"):
            case "queue_changed":
                waiting = [*map(str, event.get("steering", ())), *map(str, event.get("queued", ()))]
                taken += map(str, event.get("taken", ()))
                # A message that could not be stored waits again.
                taken = [each for each in taken if each not in waiting]
            case "user_message" if event.get("agent") == "main":
                _take_out(taken, str(event.get("text", "")))
            case _:
                pass
    return (*taken, *waiting)


def still_waiting(waiting: Sequence[str], missed: Sequence[Event]) -> list[str]:
    """Return the waiting messages that the missed events do not add to the conversation."""
    left = list(waiting)
    for event in missed:
        if isinstance(event, UserMessageAdded):
            _take_out(left, event.text)
    return left


def _take_out(texts: list[str], said: str) -> None:
    found = next((each for each in texts if clean(each) == said), None)
    if found is not None:
        texts.remove(found)


def last_node(told: Sequence[Mapping[str, Any]]) -> int:
    """Return the last node of the main agent in these events; 0 if there is none."""
    kinds = ("user_message", "assistant_message", "tool_finished")
    return max(
        (
            int(e["node"])
            for e in told
            if e.get("type") in kinds and e.get("agent") == "main" and not e.get("parent")
        ),
        default=0,
    )


def _tool_finished(node: Node, arguments: dict[str, Any], tools: Registry) -> ToolFinished:
    tool, outcome, seconds = (
        str(node.data.get("tool", "")),
        node.data.get("outcome"),
        node.data.get("seconds"),
    )
    return ToolFinished(
        node=node.id,
        call=clean(str(node.data.get("call", ""))),
        tool=clean(tool),
        outcome=cast("Outcome", outcome) if outcome in _OUTCOMES else "interrupted",
        seconds=float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        result=clean(node.content),
        display=_display(tool, arguments, _object(node.content), tools),
    )


def _display(tool: str, arguments: dict[str, Any], result: dict[str, Any], tools: Registry) -> Display:
    entry = tools.get(tool)
    if entry is not None and entry.describe is not None:
        try:
            return entry.describe(arguments, result)
        except Exception:
            pass
    subject = clean(next((str(value) for value in arguments.values()), ""))[:100]
    return Display(clean(tool) or "tool", subject, clean(str(result.get("error", "")))[:200])


def _calls(calls: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            name = str(call.get("name"))
            yield str(call.get("id")), name, meant_arguments(name, _object(call.get("arguments")))


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
