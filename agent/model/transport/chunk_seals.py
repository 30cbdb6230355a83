"""Data some chat completions providers want back: signed reasoning, and marks on single calls.

Gateways hand on the signed or encrypted reasoning of models as `reasoning_details` or, as LiteLLM does
for Claude, as `thinking_blocks`, in pieces; Gemini signs its thoughts in the `extra_content` of a call.
All go back as they came.
"""

from __future__ import annotations

import json
from typing import Any

from agent.model.protocol import SealedDelta

DETAILS = "reasoning_details"
EXTRA = "extra_content"
BLOCKS = "thinking_blocks"
_PIECES = ("text", "summary", "data")
"""Fields of a detail that come in pieces."""


class ChunkSeals:
    """Collects the sealed parts of one reply."""

    def __init__(self) -> None:
        self._details: dict[tuple[Any, Any], dict[str, Any]] = {}
        self._blocks: list[dict[str, Any]] = []
        self._marked: set[int] = set()

    def add_blocks(self, blocks: Any) -> None:
        """Take in the thinking blocks of one chunk: texts in pieces, the signature that ends each alone."""
        for each in blocks if isinstance(blocks, list) else ():
            if not isinstance(each, dict):
                continue
            last = self._blocks[-1] if self._blocks else None
            if last is None or _is_whole(last) or last.get("type") != each.get("type", last.get("type")):
                self._blocks.append({name: value for name, value in each.items() if value is not None})
                continue
            for name, value in each.items():
                if isinstance(value, str) and name != "type":
                    last[name] = last.get(name, "") + value

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
        sealed: list[SealedDelta] = []
        if any(each.get("signature") or each.get("data") for each in details):
            sealed.append(SealedDelta(json.dumps({"type": DETAILS, DETAILS: details})))
        blocks, self._blocks = list(filter(_is_whole, self._blocks)), []
        if blocks:
            sealed.append(SealedDelta(json.dumps({"type": BLOCKS, BLOCKS: blocks})))
        return sealed


def _is_whole(block: dict[str, Any]) -> bool:
    """Whether a block has what makes it valid: nothing is added to it any more."""
    return bool(block.get("signature") or block.get("data"))
