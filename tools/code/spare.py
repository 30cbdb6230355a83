"""A child that is started before it is needed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from tools.code.process import Child, Home, Recipe

log = logging.getLogger(__name__)

STALE = 900.0
"""Seconds after which a spare that nobody used is let go."""


class Spare:
    """Holds at most one waiting child. It is used once; the next one is started in the background."""

    def __init__(self, home: Home, stale: float = STALE) -> None:
        self._home = home
        self._stale = stale
        self._child: Child | None = None
        self._born = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def prepare(self, recipe: Callable[[], Awaitable[Recipe]]) -> None:
        """Have a child of that recipe wait, in the background; one that waits already may do."""
        if self._starting is not None and not self._starting.done():
            return
        self._starting = asyncio.get_running_loop().create_task(self._replace(recipe))

    async def take(self, recipe: Recipe) -> Child | None:
        """The waiting child if it is of that recipe and alive. It is the caller's from then on."""
        if self._child is None:
            return None
        if not self._fits(recipe):
            self.drop()
            return None
        child, self._child = self._child, None
        self._stop_timer()
        return child

    async def ready(self) -> None:
        """Wait until the child that is being started waits for its script."""
        if self._starting is not None:
            await asyncio.wait({self._starting})

    def drop(self) -> None:
        """Let the waiting child go."""
        self._stop_timer()
        child, self._child = self._child, None
        if child is not None:
            task = asyncio.get_running_loop().create_task(child.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        self._is_closed = True
        await self.ready()
        self.drop()
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _fits(self, recipe: Recipe) -> bool:
        child = self._child
        fresh = time.monotonic() - self._born < self._stale
        return child is not None and child.is_alive and fresh and child.recipe == recipe

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _replace(self, make: Callable[[], Awaitable[Recipe]]) -> None:
        try:
            recipe = await make()
            if self._is_closed or (self._child is not None and self._fits(recipe)):
                return
            self.drop()
            child = await Child.start(recipe, self._home, warm=True)
        except Exception:
            # The next script starts a child of its own and reports what is wrong.
            log.debug("no spare interpreter", exc_info=True)
            return
        self._child, self._born = child, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self._stale, self.drop)
