"""Reconstruction from stored messages of events that clients ("heads") missed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.core.store.nodes import Node
from agent.events import (
    ApprovalAsked,
    CeilingAsked,
    Event,
    ForecastAsked,
    QuestionAsked,
    ReplyCut,
    RequestResolved,
    ToolStarted,
    TurnEnded,
    UserMessageAdded,
)
from agent.integrations.server_events import FormAsked
from agent.session.conversation.stored_events import stored_events
from tools.registry import Registry
from tools.text.safe_text import clean

REQUESTS = frozenset(
    each.type for each in (QuestionAsked, ApprovalAsked, ForecastAsked, CeilingAsked, FormAsked)
)
"""The types of events that wait for an answer of the user."""


def past_events(path: Sequence[Node], tools: Registry) -> Iterator[Event]:
    """Yield the events of a path's nodes, oldest first, without numbers; calls appear only when ended."""
    return (each for each in stored_events(path, tools) if not isinstance(each, ToolStarted))


def closing_events(sent_events: Sequence[Mapping[str, Any]], session: str) -> Iterator[Event]:
    """Yield the events that a killed process could not send. `sent_events` are the last events that it sent.

    They end an unfinished message, cancel open requests, and end the turn as interrupted.
    """
    writing, open_requests, turn = False, dict[str, str](), False
    for event in sent_events:
        kind, is_main = event.get("type"), event.get("agent") == "main"
        match kind:
            case "text" | "reasoning" if is_main:
                writing = True
            case "assistant_message" | "reply_cut" | "turn_ended" if is_main:
                writing = False
                turn = turn and kind != "turn_ended"
            case "turn_started" if is_main:
                turn = True
            case _ if kind in REQUESTS:
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


def waiting_of(sent_events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the messages that are still queued after these events, in order.

    A message that was accepted for storage is still waiting if no `user_message` event follows.
    """
    taken: list[str] = []
    waiting: list[str] = []
    for event in sent_events:
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
    """Return those of the waiting messages that no `UserMessageAdded` in `missed` adds."""
    left = list(waiting)
    for event in missed:
        if isinstance(event, UserMessageAdded):
            _take_out(left, event.text)
    return left


def _take_out(texts: list[str], said: str) -> None:
    found = next((each for each in texts if clean(each) == said), None)
    if found is not None:
        texts.remove(found)


def last_node(sent_events: Sequence[Mapping[str, Any]]) -> int:
    """Return the last node of the main agent in these events; 0 if there is none."""
    kinds = ("user_message", "assistant_message", "tool_finished")
    return max(
        (
            int(e["node"])
            for e in sent_events
            if e.get("type") in kinds and e.get("agent") == "main" and not e.get("parent")
        ),
        default=0,
    )
