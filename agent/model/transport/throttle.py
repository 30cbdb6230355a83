"""Spaces the requests of all agents of a session as fast as the provider takes them.

A provider that refuses requests because there are too many gets fewer: the gap
between two requests widens with each storm of refusals and narrows again with
each answer. Whoever waits keeps its place in the line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

FIRST_GAP = 0.5
"""Seconds between two requests after the first refusal."""

LARGEST_GAP = 30.0
"""Seconds between two requests at most."""

LONGEST_WAIT = 120.0
"""Seconds that a provider's own wish counts at most."""

RECOVERY = 0.8
"""What an answer leaves of the gap: a dozen answers after a single refusal, there is none."""

NO_GAP = 0.05
"""Seconds below which a gap is none."""


class Throttle:
    """One line for the requests of many agents. Times are in seconds of `clock`."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._line = asyncio.Lock()
        self._opens = clock()
        self._slowed = float("-inf")
        self.gap = 0.0
        """Seconds between two requests now."""

    async def admit(self) -> float:
        """Wait for a turn, in the order of asking. The moment of it, for `refused`."""
        async with self._line:
            while (wait := self._opens - self._clock()) > 0:
                await self._sleep(wait)
            now = self._clock()
            self._opens = now + self.gap
            return now

    def refused(self, admitted: float, retry_after: float | None = None) -> None:
        """A request that was admitted at that moment came too early for the provider."""
        now = self._clock()
        if admitted > self._slowed:
            # The others of the same storm were on their way already: they say nothing new.
            self.gap = min(LARGEST_GAP, max(FIRST_GAP, 2 * self.gap))
            self._slowed = now
        wait = max(self.gap, min(retry_after or 0.0, LONGEST_WAIT))
        self._opens = max(self._opens, now + wait)

    def answered(self) -> None:
        """A request got its answer."""
        self.gap *= RECOVERY
        if self.gap < NO_GAP:
            self.gap = 0.0


class NoThrottle(Throttle):
    """For an agent whose requests wait for no others."""

    async def admit(self) -> float:
        return 0.0

    def refused(self, admitted: float, retry_after: float | None = None) -> None:
        pass

    def answered(self) -> None:
        pass
