"""Calls that repeat themselves without any change, counted over a turn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agent.core.messages import ToolCall

REPEATS_HINT = 3
REPEATS_STOP = 5
"""Identical calls with identical results in a row before a hint, and before refusal."""
ALIKE_HINT = 6
"""Calls of one tool in a row that look for something and find the same, whatever they ask, before a hint."""


@dataclass(slots=True)
class RepeatGuard:
    """Counts calls in a row that get no further, over a whole turn: identical ones, and identical results."""

    last: str = ""
    count: int = 0
    found: str = ""
    alike: int = 0

    def reset(self) -> None:
        """Begin anew, as with another turn."""
        self.last, self.count, self.found, self.alike = "", 0, "", 0

    def refuses(self, call: ToolCall) -> bool:
        """Whether the call has been answered alike so often that it is not run again."""
        return self.count >= REPEATS_STOP and self.last.startswith(_fingerprint(call))

    def note(self, call: ToolCall, result: str, *, only_looks: bool = False) -> str:
        """Record a result; what the model is told of repeats, mostly nothing.

        `only_looks`: the tool changes nothing, so that results alike mean that nothing new was found.
        """
        digest = hashlib.sha256(result.encode("utf-8", "replace")).hexdigest()
        seen = _fingerprint(call) + digest
        self.count = self.count + 1 if seen == self.last else 1
        self.last = seen
        found = f"{call.name} {digest}" if only_looks else ""
        self.alike = self.alike + 1 if found and found == self.found else 1
        self.found = found
        if self.count == REPEATS_HINT:
            return f"[This exact call has given the same result {self.count} times -- change something.]"
        if self.alike % ALIKE_HINT == 0 and self.count == 1:
            return (
                f"[The last {self.alike} calls of {call.name} gave the same result -- "
                "look in another way, or answer with what you know.]"
            )
        return ""


def _fingerprint(call: ToolCall) -> str:
    return hashlib.sha256(f"{call.name}\0{call.arguments}".encode("utf-8", "replace")).hexdigest()
