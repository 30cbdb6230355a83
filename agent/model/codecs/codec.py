"""How conversation and tools travel in one tool mode: the border between engine and wire.

A codec turns our messages into wire bytes (once each, so that a sent prefix
stays byte-identical) and a stream of deltas back into text and calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.messages import Message, ToolCall
from agent.model.protocol import Delta, ToolMode, ToolSpec


@dataclass(frozen=True, slots=True)
class DecodedReply:
    """What a reply means once it is complete. Calls have unique ids and arguments that are JSON objects.

    `repairs` are short sentences about what had to be mended (shown on demand, never to the model).
    """

    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    repairs: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Calls that must not run, by id, with the sentence the model gets instead: arguments that
    were cut off or are beyond repair. Such a call carries `{}` as its arguments."""


class Decoder(Protocol):
    """Reads one reply. One decoder serves one attempt; a retry takes a new one."""

    def feed(self, delta: Delta) -> list[Delta]:
        """The deltas to show now. Text that may turn out to be a call is held back."""
        ...

    def finish(self) -> tuple[list[Delta], DecodedReply]:
        """What was held back and is to be shown after all, and the whole reply."""
        ...


class Codec(Protocol):
    """One tool mode."""

    @property
    def mode(self) -> ToolMode: ...

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        """The system prompt with whatever the mode must say about calling tools."""
        ...

    def message(self, message: Message) -> bytes:
        """The wire form of one message: compact JSON, UTF-8. Pure: the same message gives the same bytes."""
        ...

    def tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """The wire form of the `tools` field (a JSON array), or empty if the mode does not use it."""
        ...

    def extra(self, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        """Further fields of the request body."""
        ...

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder: ...
