"""The codec of one tool mode: how calls and results travel, whatever the wire format.

A codec rewrites messages into what the mode has words for and turns a stream of
deltas back into text and calls. Bytes are the business of `agent.model.wire_format`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.core.messages import Message, ToolCall
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

    def rewritten(self, message: Message) -> Message:
        """The message in the words of the mode. Pure: the same message gives the same one."""
        ...

    def offered(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """The tools for the format's own field; none if the mode does not use it."""
        ...

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """The JSON schema that binds the whole reply, or None."""
        ...

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder: ...
