"""Data some chat completions providers want back: signed reasoning, and marks on single calls.

Gateways hand on the signed or encrypted reasoning of models as `reasoning_details`, in pieces;
Gemini signs its thoughts in the `extra_content` of a call. Both go back as they came.
"""

from __future__ import annotations

import json
from typing import Any

from agent.model.protocol import SealedDelta

DETAILS = "reasoning_details"
EXTRA = "extra_content"
_PIECES = ("text", "summary", "data")
"""Fields of a detail that come in pieces."""


class ChunkSeals:
    """Collects the sealed parts of one reply."""

    def __init__(self) -> None:
        self._details: dict[tuple[Any, Any], dict[str, Any]] = {}
        self._marked: set[int] = set()

    def add_details(self, details: Any) -> None:
        """Take in the details of one chunk. Pieces of one detail have its number and type."""
        for each in details if isinstance(details, list) else ():
            if not isinstance(each, dict):
                continue
            key = (str(each.get("index")), str(each.get("type")))
            known = self._details.setdefault(key, {})
            for name, value in each.items():
                if name in _PIECES and isinstance(value, str) and isinstance(known.get(name), str):
                    known[name] += value
                elif value is not None:
                    known[name] = value

    def of_call(self, number: int, extra: Any) -> list[SealedDelta]:
        """The mark on a call, once."""
        if not isinstance(extra, dict) or not extra or number in self._marked:
            return []
        self._marked.add(number)
        return [SealedDelta(json.dumps({"type": EXTRA, "call": number, EXTRA: extra}))]

    def flush(self) -> list[SealedDelta]:
        """The details, if anything in them is signed or encrypted: plain ones nobody wants back."""
        details, self._details = list(self._details.values()), {}
        if not any(each.get("signature") or each.get("data") for each in details):
            return []
        return [SealedDelta(json.dumps({"type": DETAILS, DETAILS: details}))]
