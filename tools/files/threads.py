"""Blocking work beside the event loop, with a way to stop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - a signal like StopIteration, not a failure
    """Raised by work that noticed that nobody waits for it any more."""


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in a thread. When the caller is cancelled, `stop` is set so that it ends soon."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    except asyncio.CancelledError:
        stop.set()
        raise
