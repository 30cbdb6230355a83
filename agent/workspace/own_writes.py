"""The engine's own writes, so that its work is not taken for someone else's."""

from __future__ import annotations

import threading
from collections import OrderedDict

_MAX_PATHS = 10_000
_MAX_PER_PATH = 32


class OwnWrites:
    """Contents that the engine has put, or is about to put, at a path. Safe to use from several threads.

    They are told by content, never by time: however late a write is noticed it
    is still ours, and what somebody else writes a moment later is still theirs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: OrderedDict[str, list[bytes | None]] = OrderedDict()

    def expect(self, path: str, digest: bytes | None) -> None:
        """The engine writes content with this SHA-256 to `path`; None stands for a removal."""
        with self._lock:
            digests = self._expected.setdefault(path, [])
            digests.append(digest)
            del digests[:-_MAX_PER_PATH]
            self._expected.move_to_end(path)
            while len(self._expected) > _MAX_PATHS:
                self._expected.popitem(last=False)

    def takes(self, path: str, digest: bytes | None) -> bool:
        """Whether what is found at `path` is the engine's. It and what came before are then done with."""
        with self._lock:
            digests = self._expected.get(path)
            if not digests or digest not in digests:
                return False
            last = len(digests) - 1 - digests[::-1].index(digest)
            del digests[: last + 1]
            if not digests:
                del self._expected[path]
            return True
