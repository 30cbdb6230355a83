"""Calls that repeat themselves without any change, counted over a turn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agent.messages import ToolCall

REPEATS_HINT = 3
REPEATS_STOP = 5
"""Identical calls with identical results in a row before a hint, and before refusal."""


@dataclass(slots=True)
class RepeatGuard:
    """Counts identical calls with identical results in a row, over a whole turn."""

    last: str = ""
    count: int = 0

    def reset(self) -> None:
        """Begin anew, as with another turn."""
        self.last, self.count = "", 0

    def refuses(self, call: ToolCall) -> bool:
        """Whether the call has been answered alike so often that it is not run again."""
        return self.count >= REPEATS_STOP and self.last.startswith(_fingerprint(call))

    def note(self, call: ToolCall, result: str) -> int:
        """Record a result; the number of times in a row that exactly this was called and answered."""
        seen = _fingerprint(call) + hashlib.sha256(result.encode("utf-8", "replace")).hexdigest()
        self.count = self.count + 1 if seen == self.last else 1
        self.last = seen
        return self.count


def _fingerprint(call: ToolCall) -> str:
    return hashlib.sha256(f"{call.name}\0{call.arguments}".encode("utf-8", "replace")).hexdigest()
