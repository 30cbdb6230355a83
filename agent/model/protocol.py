"""One protocol for every model: a request in, a stream of typed deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent.core.event_data import Usage

if TYPE_CHECKING:
    from agent.model.trial import RequestTrial

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "pause", "unknown"]
"""Why a reply ended. `pause`: the provider wants the same conversation again, to go on with the reply."""
ToolMode = Literal["native", "schema", "text"]
"""How calls travel: the provider's own field, a JSON schema for the whole reply, or plain text."""
Thinking = Literal["off", "low", "medium", "high"] | int
"""How much a model is to think before it answers; a number is a budget in tokens."""


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
class SealedDelta:
    """A part of the reply that only its provider reads and wants back byte for byte.

    `data` is the text of a JSON object in ASCII, in the form in which it is sent back. `place` says
    where in the reply it belongs, as characters of text and calls before it, if it comes later.
    """

    data: str
    place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class UsageDelta:
    usage: Usage


@dataclass(frozen=True, slots=True)
class TokensDelta:
    """Ids of tokens as the server counts them: `prompt` once, `output` in pieces."""

    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AnsweredDelta:
    """The model that a server says has answered, where that is not the one that was asked."""

    model: str


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The reply is complete. A stream that stops without `ReplyEnd` was cut."""

    reason: FinishReason


Delta = (
    TextDelta
    | ReasoningDelta
    | CallFragment
    | SealedDelta
    | UsageDelta
    | TokensDelta
    | AnsweredDelta
    | ReplyEnd
)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool on offer: name, description and JSON schema of its parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


THOUGHT = "thought"
"""Kind of a frame that holds reasoning; it is left out where a request may not ask for thinking."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of a conversation in wire form, serialised exactly once and never changed.

    What a piece is depends on the format: a message, a block of one, an item. A request
    is the same frames as the one before and new ones at its end.
    """

    data: bytes
    role: str = ""
    """Who speaks, for formats that put frames of one speaker together."""
    kind: str = ""
    """What it is, as far as its format asks for it later, such as `THOUGHT`."""
    images: int = 0
    """Images in it."""
    own: bool = False
    """Whether the model that is asked has written it itself."""

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request whose conversation is already frozen.

    `frames` and `system` are wire forms, each serialised exactly once (see
    `agent.knowledge.context.prefix_ledger`); `tools` is the wire form of the whole tool list, or
    empty. A client joins them and never parses them again.
    """

    model: str
    frames: tuple[Frame, ...]
    system: bytes = b""
    tools: bytes = b""
    marks: tuple[int, ...] = ()
    """Positions of the frames up to which the provider is to keep its cache, in order."""
    max_output: int | None = None
    usual_output: int | None = None
    """Tokens of a reply where `max_output` is open, for formats that want a limit."""
    temperature: float | None = None
    thinking: Thinking | None = None
    """None: as the provider likes it."""
    reply_schema: dict[str, Any] | None = None
    """JSON schema that binds the whole reply."""
    digest: str = ""
    """SHA-256 of what the model reads; what it signs is valid behind exactly that."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further top-level fields of the body."""
    told: Callable[[ModelRequest, bytes, Mapping[str, Any]], None] | None = field(
        default=None, compare=False, repr=False
    )
    """Hears of the body that was accepted: the request as it was sent, its bytes, the dialect."""
    trial: RequestTrial | None = field(default=None, compare=False, repr=False)
    """What is done when it is refused for its form."""


class ModelClient(Protocol):
    """A way to a model. Raises `agent.errors.ModelError` and nothing else."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]: ...

    async def aclose(self) -> None: ...
