"""Tells whether a program has a file open for writing, so that bytes may still come in.

A file that was taken out of its place can still be written to by whoever opened it
before. Linux tells: a lease for reading is granted only where nobody writes. Other
systems do not, and the answer there is no.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress

WAIT_SECONDS = 0.2
"""How long a write that is under way may take; an editor is done in a blink, a log never."""
_PAUSE = 0.005

_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL = getattr(fcntl, "F_SETSIG", 10)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OpenWriters:
    """Looks for writers, waiting for them `budget` seconds at most in all."""

    def __init__(self, budget: float = 2.0) -> None:
        self._budget = budget

    def remain(self, folder: int, name: str) -> bool:
        """Whether somebody still writes to a plain file in an open folder after a short wait."""
        until = time.monotonic() + min(WAIT_SECONDS, self._budget)
        began = time.monotonic()
        while is_written(folder, name):
            if time.monotonic() >= until:
                self._budget = max(0.0, self._budget - (time.monotonic() - began))
                return True
            time.sleep(_PAUSE)
        return False


def is_written(folder: int, name: str) -> bool:
    """Whether somebody has the file open for writing; False where that cannot be found out."""
    return bool(writer_state(folder, name))


def writer_state(folder: int, name: str) -> bool | None:
    """Whether somebody has the file open for writing; None where that cannot be found out."""
    if _SET_LEASE is None:
        return None
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return None
    try:
        # Whoever opens the file while the lease is held makes the system send a signal: one that
        # does nothing, in place of the usual one, which would end the process.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        with suppress(OSError):
            fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)
        os.close(descriptor)
    return False
