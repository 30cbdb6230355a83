"""The pace at which lines of a server's log are handed on: so many a second, whatever it writes."""

from __future__ import annotations

from dataclasses import dataclass

MOST_LINES = 20
"""Lines of one server within one second."""


@dataclass(slots=True)
class LogPace:
    """Counts the lines of one server. Times are of `time.monotonic`."""

    most: int = MOST_LINES
    second: float = float("-inf")
    count: int = 0

    def takes(self, now: float) -> bool:
        """Whether another line may be shown."""
        if now - self.second >= 1.0:
            self.second, self.count = now, 0
        self.count += 1
        return self.count <= self.most
