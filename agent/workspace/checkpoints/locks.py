"""Waiting for a lock of the system, which is let go when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

from agent.errors import StoreError

WAIT_SECONDS = 20.0
_SHORTEST, _LONGEST = 0.0005, 0.05


def lock(descriptor: int, path: Path, *, exclusive: bool, seconds: float = WAIT_SECONDS) -> None:
    """Lock an open file. Raises `StoreError` when others keep it longer than `seconds`, and `OSError`."""
    how = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    deadline = time.monotonic() + seconds
    pause = _SHORTEST
    while True:
        try:
            fcntl.flock(descriptor, how)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"Another process keeps {path} locked; wait for it or end it, and try again."
                ) from None
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST)


class BusyError(StoreError):
    """Somebody else works with the store at the moment."""
