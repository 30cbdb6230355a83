"""Paths somebody said may have changed, until they are looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MAX_PATHS = 50_000
"""Paths that are kept; when more come in, everything is to be looked at."""


class DirtyPaths:
    """Gathers paths from any thread. `wake` is called, in that thread, with the first after a `take`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._lost = False
        self.last = 0.0
        """When the last word came, on the monotonic clock."""

    def tell(self, path: str | None) -> None:
        """`path` may have changed; None stands for anything."""
        with self._lock:
            is_first = not self._paths and not self._lost
            self.last = time.monotonic()
            if path is None or len(self._paths) >= MAX_PATHS:
                self._lost = True
                self._paths.clear()
            elif not self._lost:
                self._paths.add(path)
        if is_first:
            self._wake()

    def take(self) -> set[str] | None:
        """The paths so far, or None when everything is to be looked at. They are forgotten."""
        with self._lock:
            paths = None if self._lost else self._paths
            self._paths, self._lost = set(), False
        return paths
