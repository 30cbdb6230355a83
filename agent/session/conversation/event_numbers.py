"""Event numbers of a session: each is one more than the number of the event before.

Numbers are reserved in the store in blocks before use. So, even if a process is killed, no number is ever
used for two events. At its end, a process frees the unused numbers of its block; after a kill there is a gap.
"""

from __future__ import annotations

import asyncio
import logging

from agent.core.store.store import Store
from agent.errors import HermesError

BLOCK = 10_000
"""The count of numbers reserved at once; the next block is requested when half of one is used."""

log = logging.getLogger(__name__)


class EventNumbers:
    """The source of event numbers of one session in one process."""

    def __init__(self, store: Store, session: str, first: int, block: int) -> None:
        self._store = store
        self._session = session
        self._block = block
        self._last = first - 1
        self._reserved = first + block - 1
        self._reserving: asyncio.Task[None] | None = None

    @classmethod
    def of_new(cls, store: Store, session: str) -> EventNumbers:
        """Return the numbers of a new session, whose first `BLOCK` numbers are already reserved in the
        store.
        """
        return cls(store, session, 1, BLOCK)

    @classmethod
    async def open(cls, store: Store, session: str, block: int = BLOCK) -> EventNumbers:
        """Return numbers that continue after the last number that was ever reserved. Raises `StoreError`."""
        return cls(store, session, await store.reserve_events(session, block), block)

    def next(self) -> int:
        """Return the next number, counting from 1. Must be called on the event loop."""
        self._last += 1
        if self._reserved - self._last < self._block // 2 and self._reserving is None:
            self._reserving = asyncio.create_task(self._reserve(), name="event numbers")
        return self._last

    async def _reserve(self) -> None:
        try:
            first = await self._store.reserve_events(self._session, self._block)
            if first > self._reserved + 1:
                # Another process works on this session and took the following numbers.
                self._last = max(self._last, first - 1)
            self._reserved = first + self._block - 1
        except HermesError as error:
            log.warning("no numbers for events could be set aside: %s", error)
        finally:
            self._reserving = None

    async def close(self) -> None:
        """Give the unused numbers back to the store. `next` must not be called afterwards."""
        if self._reserving is not None:
            await asyncio.gather(self._reserving, return_exceptions=True)
        try:
            self._store.give_back_events(self._session, self._last, self._reserved)
        except HermesError as error:
            log.warning("numbers of events could not be given back: %s", error)
