"""A child that is started before it is needed."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tools.code.process import ChildHome, Recipe, ScriptChild

SCARCE = 500_000_000
"""Bytes of available memory below which nothing is kept waiting."""

log = logging.getLogger(__name__)

STALE = 600.0
"""Seconds after which a spare that nobody used is let go."""


class SpareChild:
    """Holds at most one waiting child. It is used once; the next one is started in the background."""

    def __init__(self, home: ChildHome, stale: float = STALE) -> None:
        self._home = home
        self._stale = stale
        self._child: ScriptChild | None = None
        self._born = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._delay: asyncio.TimerHandle | None = None
        self._is_closed = False

    def prepare(self, recipe: Callable[[], Awaitable[Recipe]], *, after: float = 0.0) -> None:
        """Have a child of that recipe wait, in the background; one that waits already may do.

        `after` that many seconds, unless one has been asked for by then.
        """
        self._stop_delay()
        if after > 0:
            self._delay = asyncio.get_running_loop().call_later(after, self.prepare, recipe)
            return
        if self._is_closed or (self._starting is not None and not self._starting.done()):
            return
        self._starting = asyncio.get_running_loop().create_task(self._replace(recipe))

    async def take(self, recipe: Recipe) -> ScriptChild | None:
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
            task = asyncio.get_running_loop().create_task(child.end(grace=0.0))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        self._is_closed = True
        self._stop_delay()
        await self.ready()
        self.drop()
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _fits(self, recipe: Recipe) -> bool:
        child = self._child
        fresh = time.monotonic() - self._born < self._stale
        return child is not None and child.is_alive and fresh and child.recipe == recipe

    def _stop_delay(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None

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
            if available_memory() < SCARCE:
                return
            child = await ScriptChild.start(recipe, self._home, warm=True)
        except Exception:
            # The next script starts a child of its own and reports what is wrong.
            log.debug("no spare interpreter", exc_info=True)
            return
        self._child, self._born = child, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self._stale, self.drop)


def available_memory() -> float:
    """Bytes that could be used without swapping; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return math.inf
    return int(kilobytes) * 1024
