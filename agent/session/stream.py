"""The one ordered stream of events, and its listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from agent.events import Event

log = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class EventStream:
    """Passes every event to the listeners of its type, in order and at once.

    Listeners run on the event loop and must be quick. A listener that fails is logged and does not disturb
    the engine or other listeners.
    """

    def __init__(self) -> None:
        self._listeners: tuple[tuple[Listener, tuple[type[Event], ...]], ...] = ()
        self._by_type: dict[type[Event], tuple[Listener, ...]] = {}
        self.number: Callable[[], int] | None = None
        """Gives each event its number; None until the session is known."""

    def subscribe(self, listener: Listener, *types: type[Event]) -> Callable[[], None]:
        """Call `listener` with events of these types, or of all types if none is given. Returns the
        unsubscriber.
        """
        entry = (listener, types)
        self._set((*self._listeners, entry))
        return lambda: self._set(tuple(known for known in self._listeners if known is not entry))

    def _set(self, listeners: tuple[tuple[Listener, tuple[type[Event], ...]], ...]) -> None:
        self._listeners = listeners
        self._by_type = {}

    def _listeners_of(self, kind: type[Event]) -> tuple[Listener, ...]:
        if kind not in self._by_type:
            self._by_type[kind] = tuple(
                listener for listener, types in self._listeners if not types or issubclass(kind, types)
            )
        return self._by_type[kind]

    def number_event(self, event: Event) -> Event:
        """Return the event with the next number, without emitting it."""
        return event if self.number is None else replace(event, seq=self.number())

    def emit(self, event: Event) -> None:
        """Number the event and pass it to listeners. Must be called on the event loop."""
        event = self.number_event(event)
        for listener in self._listeners_of(type(event)):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", event.type)
