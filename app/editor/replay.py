"""Stored conversations as editor updates, for reopened sessions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp import schema

from agent.core.store.nodes import Node
from agent.events import AssistantMessageAdded, TodosChanged, ToolFinished, ToolStarted, UserMessageAdded
from agent.session.conversation.stored_events import stored_events
from app.editor import event_updates as calls
from app.editor.event_updates import agent_thought, agent_words, plan, user_words
from tools.context import Todo
from tools.registry import Registry


def replay_updates(
    path: Sequence[Node], tools: Registry, workspace: Path, ids: calls.EditorCallIds | None = None
) -> Iterator[Any]:
    """Yield the updates for a path's nodes, oldest first: messages, reasoning, calls, then the task list."""
    ids = ids or calls.EditorCallIds()
    arguments: Mapping[str, Any] = {}
    todos: tuple[Todo, ...] = ()
    for event in stored_events(path, tools):
        match event:
            case UserMessageAdded() if event.text.strip():
                yield user_words(event.text)
            case AssistantMessageAdded():
                if event.reasoning.strip():
                    yield agent_thought(event.reasoning)
                if event.text.strip():
                    yield agent_words(event.text)
            case ToolStarted():
                arguments = event.arguments
            case ToolFinished():
                yield _call(ids.begin(event.call or f"call-{event.node}"), event, arguments, workspace)
            case TodosChanged():
                todos = event.items or todos
            case _:
                pass
    if todos:
        yield plan(todos)


def _call(
    id: str, event: ToolFinished, arguments: Mapping[str, Any], workspace: Path
) -> schema.ToolCallStart:
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=id,
        title=calls.title_of(event.display),
        kind=calls.kind_of(event.tool),
        status=calls.status_of(event.outcome),
        content=calls.contents(event.display, event.result),
        locations=calls.locations(arguments, workspace),
        raw_input=calls.portable(arguments),
    )
