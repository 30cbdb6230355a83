"""Events of a session as updates of an editor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp import schema

from agent.events import (
    AssistantMessageAdded,
    Event,
    ReasoningAdded,
    ReplyCut,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    UsageChanged,
)
from app.editor import call_updates as calls
from tools.context import Todo
from tools.text.safe_text import clean

LIVE = 8_000
"""Characters at the end of what a running call printed that are shown."""
_TOLD = ("warning", "recovery", "compaction")
"""Kinds of notices that are told."""


class EventUpdates:
    """Those of one session. What agents that it sends say and do is not its own; their results are."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._streamed = False
        """Whether the message under way was sent piece by piece."""
        self._printed: dict[str, str] = {}
        self.shown: dict[str, list[Any]] = {}
        """What is shown of calls of this turn, by their id."""
        self.running: dict[str, ToolStarted] = {}
        """Calls that have begun and not ended."""
        self.terminals: dict[str, str] = {}
        """Terminals of the editor that show what calls print, by call."""

    def of(self, event: Event) -> list[Any]:
        """What an editor is sent for an event."""
        if event.agent != "main":
            return []
        match event:
            case TextAdded():
                self._streamed = True
                return [said(event.text)]
            case ReasoningAdded():
                return [thought(event.text)]
            case AssistantMessageAdded():
                whole = [] if self._streamed or not event.text else [said(event.text)]
                self._streamed = False
                return whole
            case ReplyCut():
                self._streamed = False
                return [thought(f"\nThe answer was cut off: {event.reason}\n")]
            case ToolStarted():
                return self._started(event)
            case ToolProgressed():
                return self._progressed(event)
            case ToolFinished():
                return self._finished(event)
            case TodosChanged():
                return [plan(event.items)]
            case UsageChanged():
                return _usage(event)
            case TurnEnded():
                self._streamed = False
                self.shown.clear()
                self._printed.clear()
                self.running.clear()
                self.terminals.clear()
                return []
            case _:
                notice = event.notice()
                return [thought(f"\n{notice[1]}\n")] if notice is not None and notice[0] in _TOLD else []

    def _started(self, event: ToolStarted) -> list[Any]:
        if event.parent:
            return []
        self.running[event.call] = event
        return [calls.started(event.call, event.tool, event.display, event.arguments, self._workspace)]

    def _progressed(self, event: ToolProgressed) -> list[Any]:
        started = self.running.get(event.call)
        if started is None or event.call in self.terminals:
            return []
        # Of a command the newest lines are told each time, of other calls what is new.
        before = "" if started.tool == "terminal" else self._printed.get(event.call, "")
        printed = f"{before}{event.text}"[-LIVE:]
        self._printed[event.call] = printed
        return [calls.progressed(event.call, printed)]

    def _finished(self, event: ToolFinished) -> list[Any]:
        if event.parent:
            return []
        self.running.pop(event.call, None)
        self._printed.pop(event.call, None)
        terminal = self.terminals.get(event.call)
        said_of_it = calls.contents(event.display, event.result)
        # A command that failed to run at all printed nothing in its terminal.
        if terminal is not None and event.outcome == "done":
            said_of_it = [calls.terminal(terminal)]
        shown = [*said_of_it, *self.shown.get(event.call, ())]
        self.shown[event.call] = shown
        return [calls.finished(event.call, event.display, event.outcome, shown)]

    def terminal_shown(self, call: str, terminal: str) -> list[Any]:
        """What an editor is sent when a terminal of its own shows what a running call prints."""
        if call not in self.running:
            return []
        self.terminals[call] = terminal
        return [
            schema.ToolCallProgress(
                session_update="tool_call_update", tool_call_id=call, content=[calls.terminal(terminal)]
            )
        ]

    def changed(self, call: str, diffs: Sequence[Any]) -> list[Any]:
        """What an editor is sent when it is known which files a call changed."""
        # The changes themselves stand in for what was said of them, but not for a terminal.
        kept = [calls.terminal(self.terminals[call])] if call in self.terminals else []
        shown = [*kept, *diffs]
        self.shown[call] = list(diffs)
        if call in self.running:
            return []
        return [schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=call, content=shown)]


def said(text: str) -> schema.AgentMessageChunk:
    """Words of the agent."""
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_text(text))


def thought(text: str) -> schema.AgentThoughtChunk:
    """What the agent thinks, or what is said beside the conversation."""
    return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=_text(text))


def asked(text: str) -> schema.UserMessageChunk:
    """Words of the person, when a session is shown again."""
    return schema.UserMessageChunk(session_update="user_message_chunk", content=_text(text))


def plan(items: Sequence[Todo]) -> schema.AgentPlanUpdate:
    """The task list. What was given up is left out."""
    return schema.AgentPlanUpdate(
        session_update="plan",
        entries=[
            schema.PlanEntry(content=clean(each.content), priority="medium", status=each.status)
            for each in items
            if each.status != "cancelled"
        ],
    )


def _usage(event: UsageChanged) -> list[Any]:
    if event.context_window is None:
        return []
    cost = event.session_cost
    return [
        schema.UsageUpdate(
            session_update="usage_update",
            used=max(event.context_used, 0),
            size=event.context_window,
            cost=None if cost is None else schema.Cost(amount=cost, currency="USD"),
        )
    ]


def _text(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=clean(text))
