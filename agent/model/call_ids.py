"""Ids of calls as a wire format takes them, the same in every request of one conversation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from agent.messages import ToolCall

_SAFE = re.compile(r"[a-zA-Z0-9_-]+")


class CallIds:
    """Gives each call of a conversation an id of its own: plain characters, at most `longest` of them.

    Models use ids that another provider refuses, and some use the same ones in every turn. What an
    id becomes follows from the calls before it alone.
    """

    def __init__(self, longest: int = 64) -> None:
        self._longest = longest
        self._taken: set[str] = set()
        self._newest: dict[str, str] = {}

    def add(self, calls: Sequence[ToolCall]) -> list[str]:
        """The ids of the calls of the next message, in their order."""
        made = [self._unique(self._plain(call.id)) for call in calls]
        self._newest = {call.id: given for call, given in zip(calls, made, strict=True)}
        return made

    def answered(self, call_id: str) -> str | None:
        """The id of a call of the newest message, for its result; None if it made no such call."""
        return self._newest.get(call_id)

    def _plain(self, call_id: str) -> str:
        if _SAFE.fullmatch(call_id) and len(call_id) <= self._longest:
            return call_id
        return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"

    def _unique(self, wanted: str) -> str:
        made, number = wanted, 1
        while made in self._taken:
            number += 1
            ending = f"_{number}"
            made = wanted[: self._longest - len(ending)] + ending
        self._taken.add(made)
        return made
