"""Events of the Messages API, read as deltas; also those of servers that only resemble it.

Blocks arrive one after the other, each with a number. Text, thoughts and arguments arrive in pieces. A signed
thought, and every block of an unknown kind, is returned as a sealed part once it is complete, in the form in
which the API needs it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.core.event_data import Usage
from agent.model.protocol import (
    CallFragment,
    Delta,
    FinishReason,
    ReasoningDelta,
    SealedDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.transport.answer import HalfCharacters

_FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "pause",
}
_PIECES = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Kinds of pieces, and the field that holds the content of each."""


@dataclass(slots=True)
class _Block:
    """The parts of one content block that have arrived so far."""

    start: dict[str, Any]
    call: int
    """The index of the call among the calls of the reply; -1 for other blocks."""
    pieces: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return str(self.start.get("type", ""))

    def join_pieces(self, name: str) -> str:
        return "".join(self.pieces.get(name, ()))


class BlockReader:
    """Reads the events of one reply, in order."""

    def __init__(self) -> None:
        self.finish: FinishReason | None = None
        self.over = False
        self.failed = ""
        self._blocks: dict[Any, _Block] = {}
        self._calls = 0
        self._counts: dict[str, int] = {}
        self._usage: Usage | None = None
        self._halves = HalfCharacters()

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """Return the deltas in one event, or in one whole message."""
        match event.get("type"):
            case "message_start":
                return self._count(_dict(event.get("message")).get("usage"))
            case "content_block_start":
                return self._begin(event.get("index"), _dict(event.get("content_block")))
            case "content_block_delta":
                return self._add(event.get("index"), _dict(event.get("delta")))
            case "content_block_stop":
                return self._complete(event.get("index"))
            case "message_delta":
                self._stop(_dict(event.get("delta")).get("stop_reason"))
                return self._count(event.get("usage"))
            case "message_stop":
                self.over = True
                return [delta for index in list(self._blocks) for delta in self._complete(index)]
            case "message":
                return self._whole(event)
            case _:
                return []

    def flush(self) -> list[Delta]:
        """Return deltas for characters that were left incomplete at the end of the stream."""
        return self._halves.flush()

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Return whether an object is a whole message."""
        return document.get("type") == "message" and isinstance(document.get("content"), list)

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the event if it reports an error; otherwise None."""
        return event if event.get("type") == "error" or event.get("error") else None

    def _whole(self, message: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        blocks = message.get("content")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            deltas += self._begin(index, _dict(block))
            deltas += self._complete(index)
        self._stop(message.get("stop_reason"))
        return deltas + self._count(message.get("usage"))

    def _begin(self, index: Any, start: dict[str, Any]) -> list[Delta]:
        index = _number(index)
        deltas = self._complete(index) if index in self._blocks else []
        is_call = start.get("type") == "tool_use"
        block = self._blocks[index] = _Block(start, self._calls if is_call else -1)
        if is_call:
            self._calls += 1
            deltas.append(CallFragment(block.call, _text(start.get("id")), _text(start.get("name"))))
            if given := start.get("input"):
                deltas += self._piece(block, "partial_json", json.dumps(given, ensure_ascii=False))
        elif start.get("type") in ("text", "thinking"):
            deltas += self._piece(block, block.kind, _text(start.get(block.kind)))
        return deltas

    def _add(self, index: Any, delta: dict[str, Any]) -> list[Delta]:
        name = _PIECES.get(_text(delta.get("type")), "")
        index = _number(index)
        block = self._blocks.get(index)
        if block is None:
            # Some servers omit the beginning of a block.
            start = {"type": "thinking" if name in ("thinking", "signature") else "text"}
            block = self._blocks[index] = _Block(start, -1)
        return self._piece(block, name, _text(delta.get(name))) if name else []

    def _piece(self, block: _Block, name: str, text: str) -> list[Delta]:
        text = self._halves.whole(text, name if name != "partial_json" else block.call)
        if not text:
            return []
        block.pieces.setdefault(name, []).append(text)
        match name:
            case "text":
                return [TextDelta(text)]
            case "thinking":
                return [ReasoningDelta(text)]
            case "partial_json" if block.call >= 0:
                return [CallFragment(block.call, arguments=text)]
            case _:
                return []

    def _complete(self, index: Any) -> list[Delta]:
        """Return the deltas that result from the end of a block."""
        block = self._blocks.get(_number(index))
        if block is not None and block.kind == "tool_use":
            # It stays, because some servers end a call before its arguments.
            return [] if block.pieces.get("partial_json") else self._piece(block, "partial_json", "{}")
        block = self._blocks.pop(_number(index), None)
        if block is None or block.kind == "text":
            return []
        sealed = dict(block.start)
        if block.kind == "thinking":
            sealed["thinking"] = block.join_pieces("thinking")
            sealed["signature"] = block.join_pieces("signature") or _text(block.start.get("signature"))
        elif written := block.join_pieces("partial_json"):
            try:
                sealed["input"] = json.loads(written)
            except (ValueError, RecursionError):
                return []
        return [SealedDelta(json.dumps(sealed))] if block.kind else []

    def _stop(self, reason: Any) -> None:
        if isinstance(reason, str) and reason:
            self.finish = _FINISH.get(reason, "unknown")

    def _count(self, usage: Any) -> list[Delta]:
        """Return the token count so far as a delta; nothing if it has not changed.

        The API counts cached tokens separately from the input.
        """
        for name, value in _dict(usage).items():
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                self._counts[name] = value or self._counts.get(name, 0)
        counts = self._counts
        read, written = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
        fresh = counts.get("input_tokens")
        counted = Usage(
            input=None if fresh is None else fresh + (read or 0) + (written or 0),
            output=counts.get("output_tokens"),
            cached=read,
            written=written,
        )
        if counted in (self._usage, Usage()):
            return []
        self._usage = counted
        return [UsageDelta(counted)]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
