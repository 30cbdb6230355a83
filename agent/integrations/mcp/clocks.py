"""The time that calls of one server have, which stands still while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class CallClocks:
    """The clocks of all calls that wait for one server."""

    def __init__(self) -> None:
        self._timers: dict[asyncio.Timeout, float] = {}
        """What waits, with the seconds it has left while the clocks stand still."""
        self._standing = 0

    @asynccontextmanager
    async def running(self, seconds: float) -> AsyncIterator[None]:
        """Raise `TimeoutError` once the clock has run for so many seconds."""
        async with asyncio.timeout(None if self._standing else seconds) as timer:
            self._timers[timer] = seconds
            try:
                yield
            finally:
                del self._timers[timer]

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Stop all clocks while the block is open."""
        loop = asyncio.get_running_loop()
        self._standing += 1
        if self._standing == 1:
            for timer in self._timers:
                if (when := timer.when()) is not None:
                    self._timers[timer] = when - loop.time()
                    timer.reschedule(None)
        try:
            yield
        finally:
            self._standing -= 1
            if self._standing == 0:
                for timer, left in self._timers.items():
                    if not timer.expired():
                        timer.reschedule(loop.time() + left)
