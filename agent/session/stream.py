"""The one ordered stream of events, and whoever listens to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from agent.events import Event

log = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class EventStream:
    """Hands every event to every listener, in order and at once.

    Listeners run on the event loop and must be quick; one that fails is logged
    and does not disturb the engine or the others.
    """

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self.number: Callable[[], int] | None = None
        """Gives each event its number; None until the session is known."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on. The returned function ends the subscription."""
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            self._listeners = tuple(known for known in self._listeners if known is not listener)

        return unsubscribe

    def numbered(self, event: Event) -> Event:
        """The event with the next number; nobody hears of it."""
        return event if self.number is None else replace(event, seq=self.number())

    def emit(self, event: Event) -> None:
        """Number the event and hand it on. Must be called on the event loop."""
        event = self.numbered(event)
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", event.type)
