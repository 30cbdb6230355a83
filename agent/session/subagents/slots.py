"""Slots for agents that work at once: the others wait in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """Room for `count` agents at a time. Waiting ones get it in the order in which they asked."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self._returning: deque[asyncio.Future[None]] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for room. Cancelled, it takes none."""
        await self._take(self._waiting)

    def give_back(self) -> None:
        """Leave room to the next one."""
        self.taken -= 1
        self._pass_on()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Leave one's room to others meanwhile, to wait for them; get the next room that is free again."""
        self.give_back()
        try:
            yield
        finally:
            # Whoever is being stopped must not wait for room: it only needs to end.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.taken += 1
            else:
                try:
                    await self._take(self._returning)
                except asyncio.CancelledError:
                    self.taken += 1
                    raise

    async def _take(self, line: deque[asyncio.Future[None]]) -> None:
        if self.taken < self.count and not self._returning and not (line is self._waiting and self._waiting):
            self.taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            elif turn in line:
                line.remove(turn)
            raise

    def _pass_on(self) -> None:
        while self.taken < self.count and (self._returning or self._waiting):
            turn = (self._returning or self._waiting).popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)
