"""One protocol for every model: a request in, a stream of typed deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "unknown"]
ToolMode = Literal["native", "schema", "text"]
"""How calls travel: the provider's own field, a JSON schema for the whole reply, or plain text."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request as the provider counted them. None means: it did not say."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    """Part of `input` that was served from the prompt cache."""
    reasoning: int | None = None
    """Part of `output` that was spent on reasoning."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class CallFragment:
    """A piece of a tool call. Pieces with one `index` belong together; `arguments` are concatenated."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class UsageDelta:
    usage: Usage


@dataclass(frozen=True, slots=True)
class End:
    """The reply is complete. A stream that stops without `End` was cut."""

    reason: FinishReason


Delta = TextDelta | ReasoningDelta | CallFragment | UsageDelta | End


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool on offer: name, description and JSON schema of its parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request whose messages are already frozen.

    `messages` are the wire forms of single messages, each serialised exactly
    once (see `agent.context.ledger`); `tools` is the wire form of the whole
    tool list, or empty. A client joins them and never parses them again.
    """

    model: str
    messages: tuple[bytes, ...]
    tools: bytes = b""
    max_output: int | None = None
    temperature: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Further top-level fields of the body, such as `response_format`."""


class ModelClient(Protocol):
    """A way to a model. Raises `agent.errors.ModelError` and nothing else."""

    def stream(self, request: Request) -> AsyncIterator[Delta]: ...

    async def aclose(self) -> None: ...
