"""One protocol for every model: a request goes in, a stream of typed deltas comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent.core.event_data import Usage
from agent.core.messages import Message

if TYPE_CHECKING:
    from agent.model.dialect import Dialect
    from agent.model.repairs import Repair

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "pause", "unknown"]
"""The reason why a reply ended. `pause`: the provider must be sent the same conversation again to continue
it.
"""
ToolMode = Literal["native", "schema", "text"]
"""The form of calls: the provider's own field, a JSON schema for the whole reply, or plain text."""
Thinking = Literal["off", "low", "medium", "high"] | int
"""The amount of thinking before an answer; a number is a budget in tokens."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class CallFragment:
    """A piece of a streamed tool call. `index` is the provider's number of the call, negative without one."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class SealedDelta:
    """A part of the reply that only its provider can read, and needs back byte for byte.

    `data` is the text of a JSON object in ASCII, in the form in which it is sent back. `place` is set if the
    part arrives late: the number of characters of text, and of calls, that come before it in the reply.
    """

    data: str
    place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class UsageDelta:
    usage: Usage


@dataclass(frozen=True, slots=True)
class TokensDelta:
    """Token ids that the server reports: `prompt` once, `output` in pieces, with its `logprobs`."""

    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AnsweredDelta:
    """The name of the model that answered, if the server reports that it is not the requested one."""

    model: str


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The end of a complete reply. A stream that stops without it was interrupted."""

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
    """One tool on offer: name, description and the JSON schema of its parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


THOUGHT = "thought"
"""The kind of a frame that holds reasoning; it is left out if a request must not ask for thinking."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of a conversation in wire form, serialised exactly once and never changed.

    The format decides what a piece is: a message, a block of a message, an item. A request consists of the
    frames of the previous one and new ones at its end.
    """

    data: bytes
    role: str = ""
    """The role of its author, for formats that join frames of one role."""
    kind: str = ""
    """The kind of the frame, if the format needs it later, such as `THOUGHT`."""
    images: int = 0
    """The number of images in it."""
    own: bool = False
    """True if it was written by the model to which it is sent."""

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request whose conversation does not change any more.

    `frames` and `system` are wire forms, each serialised exactly once (see
    `agent.knowledge.context.context_table`); `tools` is the wire form of the whole tool list, or empty. A
    client joins them and never parses them again.
    """

    model: str
    frames: tuple[Frame, ...]
    system: bytes = b""
    tools: bytes = b""
    marks: tuple[int, ...] = ()
    """The positions of the frames up to which the provider should cache, in order."""
    max_output: int | None = None
    usual_output: int | None = None
    """The output limit if `max_output` is None, for formats that require a limit."""
    temperature: float | None = None
    thinking: Thinking | None = None
    """The thinking effort; None for the provider's default."""
    reply_schema: dict[str, Any] | None = None
    """A JSON schema that the whole reply must follow; None for any reply."""
    digest: str = ""
    """The SHA-256 of what the model reads; signed parts are valid only after exactly that content."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further top-level fields of the request body."""
    told: Callable[[ModelRequest, bytes, Mapping[str, Any]], None] | None = field(
        default=None, compare=False, repr=False
    )
    """A function that is called with the accepted request, the bytes of its body, and the dialect."""
    trial: RequestTrial | None = field(default=None, compare=False, repr=False)
    """The state of the repairs if the request is refused."""


class ModelClient(Protocol):
    """A client for one model. Raises only `agent.errors.ModelError`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]: ...

    async def aclose(self) -> None: ...


MOST_SENDINGS = 6
"""The maximum number of attempts for a request that is refused for its form."""


@dataclass(slots=True)
class RequestTrial:
    """The repairs to a request so far (`ModelRequest.trial`).

    Without it, only body fields can be repaired.
    """

    rebuild: Callable[[Any, Dialect], Awaitable[Any]] | None = None
    """Builds the `ModelRequest` again for another dialect: frames, tools, system prompt."""
    images: Callable[[], Sequence[str]] = tuple
    """Returns the SHA-256 of the images in the conversation, in order."""
    tools: Callable[[], Mapping[str, str]] = dict[str, str]
    """Returns the digest of each offered tool's schema, by tool name."""
    dialect: Dialect | None = None
    """The dialect of the last attempt; None if it is the known one."""
    learned: list[tuple[Repair, str]] = field(default_factory=list)
    """The repairs so far, each with the refusal that led to it."""
    tried: set[str] = field(default_factory=set)
    sendings: int = 0
    """The number of attempts that were refused."""

    def take(self, repair: Repair, reason: str, dialect: Dialect) -> None:
        """Record a repair, and the dialect of the next attempt."""
        self.tried.add(repair.key)
        self.learned.append((repair, reason))
        self.dialect = dialect


Guard = Callable[[str, int, str], str | None]
"""Takes the user's text, the turn's calls so far and the answer; returns a message to the model, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The prompt and tool settings for one class of models."""

    name: str
    system_prompt: str | None = None
    """Replaces the standard system prompt; None keeps it. May use `{workspace}` and `{date}`."""
    tools: tuple[str, ...] | None = None
    """Names of the only tools on offer; None for those in the settings."""
    tool_descriptions: Mapping[str, str] = field(default_factory=dict)
    """Descriptions that replace the tools' own, by tool name."""
    tool_parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameter schemas that replace the tools' own, by tool name; each has a part of the same parameters."""
    context_files: bool = True
    """True if SOUL.md and the project's instruction files are added to the prompt."""
    brief: bool = False
    """True if the short form of the standard prompt is used."""
    examples: tuple[Message, ...] = ()
    """Worked examples, placed between system prompt and conversation."""
    result_limit: int = 100_000
    """The number of characters of a tool result that stay in the conversation."""
    max_output: int | None = None
    """The maximum number of tokens in one reply, if the settings give none."""
    temperature: float | None = None
    """The sampling temperature, if the settings give none."""
    guard: Guard | None = None

    def offer(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Return the tools in the form of this profile: only those that it names, or all if it names none."""
        if self.tools is not None:
            by_name = {tool.name: tool for tool in tools}
            tools = [by_name[name] for name in self.tools if name in by_name]
        return tuple(
            replace(
                tool,
                description=self.tool_descriptions.get(tool.name, tool.description),
                parameters=dict(self.tool_parameters.get(tool.name, tool.parameters)),
            )
            for tool in tools
        )


STANDARD = Profile(name="standard")

SMALL_WINDOW = 16_000
"""The size of a context window, in tokens, below which a model gets the compact profile."""


def _flat(required: Sequence[str], **kinds: str) -> dict[str, Any]:
    """Return an object schema; `kinds` are the types of its parameters by name."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in kinds.items()},
        "required": list(required),
    }


COMPACT = Profile(
    name="compact",
    tools=("terminal", "read_file", "write_file", "patch", "search", "todo_write", "recall_folded"),
    tool_descriptions={
        "terminal": "Run a shell command; folder and variables last between calls.",
        "read_file": "Show numbered lines of a text file.",
        "write_file": "Create a file, or overwrite it.",
        "patch": "Replace one text in a file by another; the old text has to occur exactly once.",
        "search": "Find lines that match a pattern, or with target=files files by name.",
        "todo_write": "Write the whole task list; status: pending, in_progress, completed or cancelled.",
        "recall_folded": "Show a message that was folded or masked to make room, by its id.",
    },
    tool_parameters={
        "terminal": _flat(["command"], command="string", timeout="integer"),
        "read_file": _flat(["path"], path="string", offset="integer", limit="integer"),
        "write_file": _flat(["path", "content"], path="string", content="string"),
        "patch": {
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["replace"]},
                **{name: {"type": "string"} for name in ("path", "old_string", "new_string")},
            },
            "required": ["mode", "path", "old_string", "new_string"],
        },
        "search": _flat(["pattern"], pattern="string", path="string", target="string"),
        "recall_folded": _flat([], id="integer", query="string", offset="integer"),
    },
    brief=True,
    result_limit=4_000,
    max_output=1_500,
)
"""The profile for models with a small window: few tools, short descriptions, small results."""
