"""The one ordered stream of events, and its listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agent.core.listeners import Listeners
from agent.events import Event


class EventStream(Listeners):
    """The ordered events of one session, which are numbered and passed to listeners."""

    number: Callable[[], int] | None = None
    """A function that returns the next event number; None until the session is known."""

    def number_event(self, event: Event) -> Event:
        """Return the event with the next number, without emitting it; unchanged without `number`."""
        return event if self.number is None else replace(event, seq=self.number())

    def emit(self, event: Event) -> None:
        """Number the event and pass it to listeners. Must be called on the event loop."""
        self.pass_on(self.number_event(event))
