"""Garbage collection and thread switching, scheduled so that typing is not delayed."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

QUIET = 2.0
"""Seconds without a key press after which a collection is not noticed."""
WAIT = 5.0
"""Seconds between two full collections."""
MOST = 12_000
"""The number of objects that a full collection may check, in about 4 ms; more are frozen unchecked."""
MODULES = 20
"""Once this many modules were imported, all objects are frozen instead: modules live on anyway."""
REST = 600.0
"""Seconds without a key press after which frozen objects are collected too, once."""
YOUNG, MIDDLE, NEVER = 2_000, 2, 1_000_000
"""Thresholds of the three generations: a middle collection checks about 6,000 objects in 2 ms."""


class GcScheduler:
    """Runs full collections instead of Python between `start` and `stop`; `look` is called every few seconds.

    The event loop stands still during a collection, so it happens only if it will be short. Garbage among
    frozen objects is collected once no key was pressed for `REST` seconds.
    """

    def __init__(self) -> None:
        self._python = gc.get_threshold()
        self._due = 0.0
        self._rested = True
        self._modules = 0

    def start(self) -> None:
        """Let Python collect only young objects automatically; full collections happen in `look`."""
        gc.set_threshold(YOUNG, MIDDLE, NEVER)

    def stop(self) -> None:
        """Restore Python's automatic collection, and unfreeze all objects."""
        gc.set_threshold(*self._python)
        gc.unfreeze()

    def collect_if_idle(self, now: float, last_key: float) -> bool:
        """Collect if no key is likely to be delayed; return whether it did. Both times use the same clock."""
        quiet = now - last_key
        if rests := quiet >= REST and not self._rested:
            self._rested = True
            gc.unfreeze()
        elif quiet < QUIET or now < self._due or not gc.get_count()[2]:
            return False
        else:
            self._rested = self._rested and quiet >= REST
        new, self._modules = len(sys.modules) - self._modules, len(sys.modules)
        if collects := rests or (new < MODULES and len(gc.get_objects(2)) <= MOST):
            gc.collect()
        if rests or not collects or len(gc.get_objects(2)) > MOST // 2:
            gc.freeze()
        self._due = now + WAIT
        return collects


@asynccontextmanager
async def schedule_collections(last_key: Callable[[], float]) -> AsyncIterator[None]:
    """Schedule collections while the block runs. `last_key` returns the time of the last key press."""
    collector = GcScheduler()

    async def check_regularly() -> None:
        while True:
            await asyncio.sleep(QUIET)
            collector.collect_if_idle(time.monotonic(), last_key())

    collector.start()
    task = asyncio.create_task(check_regularly())
    try:
        yield
    finally:
        task.cancel()
        collector.stop()


SWITCH = 0.001
"""Seconds after which the interpreter may switch to another thread."""


@contextmanager
def share_interpreter() -> Iterator[None]:
    """Make threads switch to the event loop sooner while the block runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
