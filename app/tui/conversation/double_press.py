"""A key that means something only when it is pressed twice."""

from __future__ import annotations

import time
from collections.abc import Callable


class DoublePress:
    """Tells the second press of a key from the first; `window` is the time between them in seconds."""

    def __init__(self, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._window = window
        self._clock = clock
        self._last = float("-inf")
        self._held = float("-inf")

    def press(self) -> bool:
        """Whether this press is the second one; then the next is a first one again."""
        now = self._clock()
        if now < self._held:
            return False
        second = now - self._last <= self._window
        self._last = float("-inf") if second else now
        return second

    def hold(self, seconds: float) -> None:
        """The key meant something else just now: presses in the next seconds count for nothing."""
        self._last = float("-inf")
        self._held = self._clock() + seconds
