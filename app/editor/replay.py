"""Stored conversations as editor updates, for reopened sessions. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from acp import schema

from agent.core.store.nodes import Node
from app.editor import event_updates as calls
from app.editor.event_updates import agent_thought, agent_words, plan, user_words
from app.tui.conversation.replay import OUTCOMES, display_of
from tools.context import Todo
from tools.inner_call import meant_arguments
from tools.registry import Registry
from tools.results import Outcome

_STATUSES = frozenset({"pending", "in_progress", "completed"})


def replay_updates(path: Sequence[Node], tools: Registry, workspace: Path) -> Iterator[Any]:
    """Yield the path as updates, oldest first: messages, reasoning, calls with results, the task list."""
    given: dict[str, dict[str, Any]] = {}
    todos: tuple[Todo, ...] = ()
    for node in path:
        match node.kind:
            case "user" if node.data.get("origin") != "engine":
                if node.content.strip():
                    yield user_words(node.content)
            case "assistant":
                given = _arguments(node.data.get("calls"))
                reasoning = node.data.get("reasoning")
                if isinstance(reasoning, str) and reasoning.strip():
                    yield agent_thought(reasoning)
                if node.content.strip():
                    yield agent_words(node.content)
            case "tool":
                yield _call(node, given, tools, workspace)
                if str(node.data.get("tool", "")).startswith("todo_"):
                    todos = _todos(_object(node.content).get("todos")) or todos
            case _:
                pass
    if todos:
        yield plan(todos)


def _call(
    node: Node, given: Mapping[str, dict[str, Any]], tools: Registry, workspace: Path
) -> schema.ToolCallStart:
    call, tool = str(node.data.get("call", "")), str(node.data.get("tool", ""))
    outcome = node.data.get("outcome")
    arguments = given.get(call, {})
    display = display_of(tool, arguments, _object(node.content), tools)
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=call or f"call-{node.id}",
        title=calls.title_of(display),
        kind=calls.kind_of(tool),
        status=calls.status_of(cast("Outcome", outcome) if outcome in OUTCOMES else "interrupted"),
        content=calls.contents(display, node.content),
        locations=calls.locations(arguments, workspace),
        raw_input=calls.portable(arguments),
    )


def _arguments(asked_for: Any) -> dict[str, dict[str, Any]]:
    found = asked_for if isinstance(asked_for, list) else []
    return {
        str(call.get("id")): meant_arguments(str(call.get("name")), _object(call.get("arguments")))
        for call in found
        if isinstance(call, dict)
    }


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _todos(items: Any) -> tuple[Todo, ...]:
    found = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return tuple(
        Todo(str(each.get("id", "")), str(each.get("content", "")), each["status"])
        for each in found
        if each.get("status") in _STATUSES
    )
