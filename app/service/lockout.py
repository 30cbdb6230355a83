"""Counting what was wrong: after too many wrong tokens or codes, more wrong ones hear 429.

A valid token or code is never refused for what others got wrong, so nobody can lock a device out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MOST_KEYS = 1_000
"""Different names whose faults are remembered."""
ANYBODY = ""
"""What carries no name that is known."""


class Lockout:
    """Faults within a span of time, by device or by the name of a code."""

    def __init__(self, most: int, span: float, now: Callable[[], float] = time.monotonic) -> None:
        """At most `most` faults in `span` seconds."""
        self._most = most
        self._span = span
        self._now = now
        self._faults: dict[str, deque[float]] = {}

    def fault(self, key: str) -> float:
        """Note a fault; seconds to wait if there were too many, else 0."""
        now = self._now()
        if key not in self._faults and len(self._faults) >= MOST_KEYS:
            self._forget(now)
        if key not in self._faults and len(self._faults) >= MOST_KEYS:
            key = ANYBODY
        faults = self._faults.setdefault(key, deque(maxlen=self._most + 1))
        while faults and faults[0] <= now - self._span:
            faults.popleft()
        faults.append(now)
        return faults[0] + self._span - now if len(faults) > self._most else 0.0

    def _forget(self, now: float) -> None:
        """Forget those whose last fault is long past."""
        old = [key for key, faults in self._faults.items() if faults[-1] <= now - self._span]
        for key in old:
            del self._faults[key]


class RateLimit:
    """So many requests a second on average, with bursts, by device: a bucket that fills again."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}
        """What is left, and when that was so."""

    def take(self, key: str) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        now = self._now()
        left, since = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            self._buckets[key] = (left, now)
            return (1 - left) / self._rate
        self._buckets[key] = (left - 1, now)
        if len(self._buckets) > MOST_KEYS:
            self._buckets = {
                name: (held, at)
                for name, (held, at) in self._buckets.items()
                if held + (now - at) * self._rate < self._burst
            }
        return 0.0
