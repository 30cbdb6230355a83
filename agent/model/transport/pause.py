"""Holding an agent still: no request leaves, and the one on its way is broken off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from agent.errors import ModelError
from agent.model.transport.retry import RetryPolicy

T = TypeVar("T")

STORM = 20
"""How often more than usual a request is tried again that came too early: the throttle does the waiting."""


class PausedError(ModelError):
    """An answer was broken off because its agent is paused; it is asked for again afterwards."""

    def __init__(self) -> None:
        super().__init__("cut", "The agent is paused.")


class Pause:
    """Whether one agent is held still. `waited` is told the seconds of each pause."""

    def __init__(self, waited: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._waited = waited
        self._clock = clock
        self._flows = asyncio.Event()
        self._flows.set()
        self._limit: asyncio.Timeout | None = None
        self._since = 0.0

    @property
    def on(self) -> bool:
        return not self._flows.is_set()

    def begin(self) -> None:
        """Break off the answer that is coming in, and let no request leave."""
        if self.on:
            return
        self._since = self._clock()
        self._flows.clear()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def end(self) -> None:
        """Let the agent go on."""
        if self.on:
            self._waited(self._clock() - self._since)
            self._flows.set()

    async def over(self) -> None:
        """Wait until the agent is not paused."""
        await self._flows.wait()

    async def next(self, items: AsyncIterator[T]) -> T:
        """The next of `items`. Raises `PausedError` as soon as the agent is paused."""
        try:
            async with asyncio.timeout(0 if self.on else None) as limit:
                self._limit = limit
                return await anext(items)
        except TimeoutError:
            if not self.on:
                raise
            raise PausedError from None
        finally:
            self._limit = None


class NoPause(Pause):
    """For an agent that is interrupted rather than paused."""

    def __init__(self) -> None:
        super().__init__(lambda _seconds: None)

    async def next(self, items: AsyncIterator[T]) -> T:
        return await anext(items)


@dataclass(frozen=True, slots=True)
class PatientPolicy(RetryPolicy):
    """Tries again after each pause, and through long storms of refusals."""

    def delay(self, attempt: int, error: ModelError, chance: Random) -> float | None:
        """As in `RetryPolicy`; a pause and the throttle do their own waiting."""
        if isinstance(error, PausedError):
            return 0.0
        if error.kind == "rate_limit" and attempt <= self.retries + STORM:
            return 0.0
        return RetryPolicy.delay(self, attempt, error, chance)
