"""Listeners for events, each subscribed to the event types that it uses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from agent.events import Event

log = logging.getLogger(__name__)

Listener: TypeAlias = "Callable[[Event], None]"


class Listeners:
    """The callbacks subscribed to events, called in the order of subscription.

    They run on the event loop and must be quick. A listener that raises an exception is logged and does not
    disturb the others.
    """

    def __init__(self) -> None:
        self._entries: tuple[tuple[Listener, tuple[type[Event], ...]], ...] = ()
        self._by_type: dict[type[Event], tuple[Listener, ...]] = {}

    def subscribe(self, listener: Listener, *types: type[Event]) -> Callable[[], None]:
        """Call `listener` with every event of these types, or of all types if none is given.

        Returns a function that ends the subscription.
        """
        entry = (listener, types)
        self._set((*self._entries, entry))
        return lambda: self._set(tuple(known for known in self._entries if known is not entry))

    def __iter__(self) -> Iterator[Listener]:
        return (listener for listener, _ in self._entries)

    def remove(self, listener: Listener) -> None:
        """End all subscriptions of a listener."""
        self._set(tuple(entry for entry in self._entries if entry[0] is not listener))

    def pass_on(self, event: Event) -> None:
        """Call all listeners that are subscribed to the type of `event`."""
        kind = type(event)
        if kind not in self._by_type:
            self._by_type[kind] = tuple(
                listener for listener, types in self._entries if not types or issubclass(kind, types)
            )
        for listener in self._by_type[kind]:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", event.type)

    def _set(self, entries: tuple[tuple[Listener, tuple[type[Event], ...]], ...]) -> None:
        self._entries = entries
        self._by_type = {}
