"""The time a script has used, without the time it had to wait for a person."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Runs from its creation on. Several pauses may overlap: it goes on when the last one ends."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._waited = 0.0
        self._pauses = 0
        self._pause_began = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds used so far."""
        now = self._pause_began if self._pauses else time.monotonic()
        return now - self._started - self._waited

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    def restart(self) -> None:
        """Begin at zero again: what came before was preparation."""
        self._started = time.monotonic()
        self._waited = 0.0
        self._pause_began = self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time inside this block does not count."""
        if self._pauses == 0:
            self._pause_began = time.monotonic()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._waited += time.monotonic() - self._pause_began
