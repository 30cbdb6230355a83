"""The unfinished reply of each agent, and the listeners that follow it.

The store has only complete messages. A person who opens an agent also wants to see the half-written answer
and the calls that still run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.events import (
    AgentEnded,
    AgentStarted,
    AssistantMessageAdded,
    Event,
    ReasoningAdded,
    ReplyCut,
    SessionOpened,
    TextAdded,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    UserMessageAdded,
)

Listener = Callable[[Event], None]
PROGRESS_KEPT = 40
"""Output pieces of a running call that are kept for a pane opened later."""


@dataclass(slots=True)
class _Running:
    started: ToolStarted
    progress: deque[ToolProgressed] = field(default_factory=lambda: deque(maxlen=PROGRESS_KEPT))


@dataclass(slots=True)
class Flight:
    """The part of an agent's conversation that is not stored yet."""

    node: int = 0
    """The last message or result that was announced by an event; 0 if there is none."""
    _pieces: list[Event] = field(default_factory=list[Event])
    _calls: dict[str, _Running] = field(default_factory=dict[str, _Running])

    def hear(self, event: Event) -> None:
        """Record an event of the conversation."""
        match event:
            case TextAdded() | ReasoningAdded() | ReplyCut():
                self._pieces.append(event)
            case AssistantMessageAdded():
                self.node = event.node
                self._pieces.clear()
            case UserMessageAdded():
                self.node = event.node
            case ToolStarted(parent=""):
                self._calls[event.call] = _Running(event)
            case ToolProgressed() if event.call in self._calls:
                self._calls[event.call].progress.append(event)
            case ToolFinished(parent=""):
                self.node = max(self.node, event.node)
                self._calls.pop(event.call, None)

    def events(self) -> list[Event]:
        """Return the events that complete the stored conversation."""
        calls = [each for running in self._calls.values() for each in (running.started, *running.progress)]
        return [*self._pieces, *calls]


class AgentStreams:
    """The streams of all subagents of the session."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._listeners: dict[str, list[Listener]] = {}

    def hear(self, event: Event) -> None:
        """Record an event and pass it to the listeners of its agent; a new session concerns all."""
        if isinstance(event, SessionOpened):
            self._flights.clear()
            for each in [each for listeners in self._listeners.values() for each in listeners]:
                each(event)
        if event.agent == "main":
            return
        if isinstance(event, AgentStarted | AgentEnded):
            # The agent is not running yet, or has ended.
            node = self._flights[event.agent].node if event.agent in self._flights else 0
            self._flights[event.agent] = Flight(node)
        else:
            self._flights.setdefault(event.agent, Flight()).hear(event)
        for listener in tuple(self._listeners.get(event.agent, ())):
            listener(event)

    def flight(self, agent: str) -> Flight:
        """Return the unfinished part of an agent's conversation."""
        return self._flights.get(agent) or Flight()

    def follow(self, agent: str, listener: Listener) -> Callable[[], None]:
        """Pass every event of an agent to `listener`, until the returned function is called."""
        listeners = self._listeners.setdefault(agent, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop
