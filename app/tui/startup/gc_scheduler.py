"""The interpreter while somebody types: garbage collection and threads give way."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

QUIET = 2.0
"""Seconds without a key after which a collection is not felt."""
WAIT = 60.0
"""Seconds between two full collections."""
REST = 600.0
"""Seconds without a key after which even what was set aside is looked at again, once."""
YOUNG, MIDDLE, NEVER = 2_000, 2, 1_000_000
"""Thresholds of the three generations: one of the middle one looks at about 6,000 objects, for 2 ms."""


class GcScheduler:
    """Takes collections over from Python between `start` and `stop`. Asked every second or so."""

    def __init__(self) -> None:
        self._python = gc.get_threshold()
        self._due = 0.0
        self._rested = True

    def start(self) -> None:
        """From now on full collections happen in `look` only."""
        gc.set_threshold(YOUNG, MIDDLE, NEVER)

    def stop(self) -> None:
        """Python collects again as it did before."""
        gc.set_threshold(*self._python)
        gc.unfreeze()

    def look(self, now: float, last_key: float) -> bool:
        """Collect if this is the moment (both in seconds on one clock); tells whether it did."""
        quiet = now - last_key
        if quiet >= REST and not self._rested:
            self._rested = True
            gc.unfreeze()
        elif quiet < QUIET or now < self._due:
            return False
        else:
            self._rested = self._rested and quiet >= REST
        gc.collect()
        gc.freeze()
        self._due = now + WAIT
        return True


@asynccontextmanager
async def collecting(last_key: Callable[[], float]) -> AsyncIterator[None]:
    """Collect by these rules for as long as the block runs. `last_key` tells when a key came (monotonic)."""
    collector = GcScheduler()

    async def look() -> None:
        while True:
            await asyncio.sleep(1.0)
            collector.look(time.monotonic(), last_key())

    collector.start()
    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        collector.stop()


SWITCH = 0.001
"""Seconds after which another thread may run."""


@contextmanager
def sharing() -> Iterator[None]:
    """Threads give way to the event loop soon, as long as the block runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
