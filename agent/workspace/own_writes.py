"""Writes by Hermes itself, recorded so that they are not reported as changes by others."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_MAX_PATHS = 10_000
_MAX_PER_PATH = 32


class OwnWrites:
    """Contents that Hermes wrote or will write, by path. Thread-safe.

    They are recognised by content, never by time. So a write by Hermes is recognised even if it is noticed
    late, and a write by another program a moment later is not mistaken for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: OrderedDict[str, list[bytes | None]] = OrderedDict()

    def expect(self, path: str, digest: bytes | None) -> None:
        """Announce a write of content with this SHA-256 to `path`; None announces a removal."""
        with self._lock:
            digests = self._expected.setdefault(path, [])
            digests.append(digest)
            del digests[:-_MAX_PER_PATH]
            self._expected.move_to_end(path)
            while len(self._expected) > _MAX_PATHS:
                self._expected.popitem(last=False)

    def consume(self, path: str, digest: bytes | None) -> bool:
        """Return whether this content was announced for `path`; if so, drop this and older announcements."""
        with self._lock:
            digests = self._expected.get(path)
            if not digests or digest not in digests:
                return False
            last = len(digests) - 1 - digests[::-1].index(digest)
            del digests[: last + 1]
            if not digests:
                del self._expected[path]
            return True


MAX_PATHS = 50_000
"""The number of stored paths; if there are more, everything must be checked."""


class DirtyPaths:
    """Changed paths, collected from any thread. The first after each `take` calls `wake` in its thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._lost = False
        self.last = 0.0
        """The time of the last report, on the monotonic clock."""

    def add(self, path: str | None) -> None:
        """Record that `path` may have changed; None means that any path may have changed."""
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
        """Return the paths collected so far, and clear them; None if everything must be checked."""
        with self._lock:
            paths = None if self._lost else self._paths
            self._paths, self._lost = set(), False
        return paths
