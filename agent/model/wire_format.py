"""The wire format of a provider: how a conversation becomes requests, and how its stream is read.

A format is one of two axes. The other one is the tool mode (`agent.model.codecs`), which
says how calls travel where a model has no field for them. A format declares itself as
`FORMAT` in a module of its own; `agent.model.format_registry` finds it by its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agent.core.messages import Message
from agent.model.calls.call_assembly import UNNAMED
from agent.model.calls.repair import repair_arguments, without_surrogates
from agent.model.codecs.codec import Codec, Decoder
from agent.model.dialect import ANY, Dialect
from agent.model.protocol import Delta, FinishReason, Frame, ModelRequest, Thinking, ToolSpec
from agent.model.tool_schemas import plain, sound
from tools.text.words import shorten


class Framer(Protocol):
    """Turns the messages of one conversation into frames, each exactly once and in their order.

    It may remember what came before, so that ids are unique and what a provider signed is
    only sent where it is valid. The same messages in the same order give the same frames.
    """

    def frames(self, message: Message) -> list[Frame]:
        """The frames of the next message; possibly none."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of everything framed so far in hex; empty where the format has no use for it."""
        ...

    def may_think(self, wanted: Thinking | None) -> bool:
        """Whether the next request may ask for thinking. If not, frames of thoughts are left out."""
        ...


class EventReader(Protocol):
    """Reads the events of one reply, in order, as JSON objects. Unknown events are skipped."""

    finish: FinishReason | None
    """Why the model stopped, once it said so."""
    over: bool
    """Whether nothing more is to come."""
    failed: str
    """Why the provider gave up in the middle of the reply, if it did and says no more about it."""

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """The deltas in one event, or in one whole reply."""
        ...

    def flush(self) -> list[Delta]:
        """What was held back, when nothing more will come."""
        ...

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Whether a body that is one object, not a stream, is a reply of this format."""
        ...

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """The error an event reports, in a form `complaints.complaint_of` reads; None if it reports none."""
        ...


class WireFormat(Protocol):
    """One form of requests and replies. Formats have no state; frames and readers do."""

    @property
    def name(self) -> str:
        """What `providers.NAME.format` calls it."""
        ...

    @property
    def title(self) -> str:
        """What people call it, such as `chat completions`."""
        ...

    @property
    def endpoint(self) -> str:
        """What is appended to a base URL, such as `/chat/completions`."""
        ...

    @property
    def marks_cache(self) -> bool:
        """Whether requests tell the provider up to where its cache is to reach."""
        ...

    def system(self, prompt: str) -> bytes:
        """The wire form of the system prompt; empty for none."""
        ...

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ...) -> bytes:
        """The wire form of the tools on offer (a JSON array), or empty if there are none."""
        ...

    def framer(self, owner: str, head: bytes, dialect: Dialect = ...) -> Framer:
        """A framer for one conversation. `owner` is the label of the model that reads it, `head` what
        precedes the conversation: tools and system prompt."""
        ...

    def body(self, request: ModelRequest, dialect: Dialect = ...) -> bytes:
        """The body of a request. Frames, system prompt and tools go in as the bytes they are."""
        ...

    def headers(self, api_key: str) -> Mapping[str, str]:
        """The headers that carry the key and the version; nothing for an empty key that needs none."""
        ...

    def reader(self) -> EventReader: ...


EMPTY = {"system": "(none)", "user": "(empty message)", "assistant": "(empty reply)", "tool": "(no output)"}
"""What stands for empty content, which many providers refuse; by role."""

_NAME_LENGTH = 64


def compact(value: Any) -> bytes:
    """`value` as compact UTF-8 JSON, whatever characters its texts hold."""
    return without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def never_blank(content: str, role: str) -> str:
    """`content`, or what stands for it if it is blank."""
    return content if content.strip() else EMPTY[role]


def wire_name(name: str) -> str:
    """A tool's name as providers take it, for calls in the history whose name the model made up."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return safe[:_NAME_LENGTH] or UNNAMED


def object_text(arguments: str) -> str:
    """Arguments as the text of a JSON object; `{}` if they are none."""
    return repair_arguments(arguments)[0] or "{}"


@dataclass(frozen=True, slots=True)
class Wire:
    """A pair of format and tool mode; each of the two knows nothing of the other."""

    format: WireFormat
    mode: Codec

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> bytes:
        """The wire form of the system prompt, with what the mode says about calling tools."""
        return self.format.system(self.mode.system(prompt, tools))

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ANY) -> bytes:
        """The wire form of the tools; empty if the mode does not use the format's field for them."""
        return self.format.tools(prepare_tools(self.mode.native_tools(tools), dialect), dialect)

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """The JSON schema that binds the whole reply, or None."""
        return self.mode.reply_schema(tools)

    def framer(self, owner: str = "", head: bytes = b"", dialect: Dialect = ANY) -> Framer:
        """See `WireFormat.framer`; messages pass the mode first."""
        return _ModeFramer(self.mode, self.format.framer(owner, head, dialect))

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return self.mode.decoder(tools)


def prepare_tools(tools: Sequence[ToolSpec], dialect: Dialect) -> Sequence[ToolSpec]:
    """The tools with schemas as the model takes them, without those it refused as they are."""
    rules = dialect.tools
    if rules.without:
        tools = [tool for tool in tools if f"{tool.name}:{schema_digest(tool)}" not in rules.without]
    if rules.form != "any":
        made = plain if rules.form == "plain" else sound
        tools = [replace(tool, parameters=made(tool.parameters)) for tool in tools]
    if most := rules.longest:
        tools = [replace(tool, description=shorten(tool.description, most)) for tool in tools]
    return tools


def schema_digest(tool: ToolSpec) -> str:
    """What tells a tool that was refused from the same one with another schema."""
    return hashlib.sha256(json.dumps(tool.parameters, sort_keys=True).encode()).hexdigest()[:12]


class _ModeFramer:
    """Frames of messages as the tool mode rewrites them."""

    def __init__(self, mode: Codec, inner: Framer) -> None:
        self._mode = mode
        self._inner = inner

    def frames(self, message: Message) -> list[Frame]:
        return self._inner.frames(self._mode.rewritten(message))

    @property
    def digest(self) -> str:
        return self._inner.digest

    def may_think(self, wanted: Thinking | None) -> bool:
        return self._inner.may_think(wanted)
