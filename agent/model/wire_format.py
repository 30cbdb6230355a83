"""The wire format of a provider: the form of its requests, and the reader of its stream.

A format is independent of the tool mode (`agent.model.codecs`), which is the form of calls for a model
without a field for them. A format declares itself as `FORMAT` in a separate module;
`agent.model.format_registry` finds it by name.
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
    """An object that turns the messages of one conversation into frames, each exactly once and in order.

    It may remember earlier messages, so that ids are unique and signed parts are sent only where they are
    valid. Equal messages in equal order give equal frames.
    """

    def frames(self, message: Message) -> list[Frame]:
        """Return the frames of the next message, possibly none."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256, in hexadecimal, of everything framed so far; empty if the format does not need it."""
        ...

    def may_think(self, wanted: Thinking | None) -> bool:
        """Return whether the next request may ask for thinking. If not, frames with thoughts are omitted."""
        ...


class EventReader(Protocol):
    """A reader of the events of one reply, in order, as JSON objects. Unknown events are skipped."""

    finish: FinishReason | None
    """The reason why the reply ended; None while it is not known."""
    over: bool
    """True if nothing more will arrive."""
    failed: str
    """The reason why the provider gave up in mid-reply, if it gave no details; otherwise empty."""

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """Return the deltas in one event, or in one whole reply."""
        ...

    def flush(self) -> list[Delta]:
        """Return the deltas that were held back until the end of the stream."""
        ...

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Return whether a body that is one object, and not a stream, is a reply in this format."""
        ...

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the error in an event, as `failures.complaint_of` accepts it; None if there is none."""
        ...


class WireFormat(Protocol):
    """One form of requests and replies. Unlike framers and readers, formats have no state."""

    @property
    def name(self) -> str:
        """The name that selects the format in the settings (`providers.NAME.format`)."""
        ...

    @property
    def title(self) -> str:
        """The usual name of the format, such as `chat completions`."""
        ...

    @property
    def endpoint(self) -> str:
        """The path appended to a base URL, such as `/chat/completions`."""
        ...

    @property
    def marks_cache(self) -> bool:
        """True if requests must mark where the part for the provider's cache ends."""
        ...

    def system(self, prompt: str) -> bytes:
        """Return the wire form of the system prompt; may be empty without one."""
        ...

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ...) -> bytes:
        """Return the wire form of the tools on offer (a JSON array), or empty if there are none."""
        ...

    def framer(self, owner: str, head: bytes, dialect: Dialect = ...) -> Framer:
        """Return a framer for one conversation.

        `owner` is the label of the model to which it is sent, `head` the part before the conversation: tools
        and system prompt.
        """
        ...

    def body(self, request: ModelRequest, dialect: Dialect = ...) -> bytes:
        """Return the body of a request. Frames, system prompt and tools are inserted as bytes."""
        ...

    def thinking_problem(self, request: ModelRequest, dialect: Dialect = ...) -> str:
        """Return why the body does not ask for thinking although the request wants it; empty otherwise."""
        ...

    def headers(self, api_key: str) -> Mapping[str, str]:
        """Return the headers for the key and the version; an empty key is left out."""
        ...

    def reader(self) -> EventReader: ...


EMPTY = {"system": "(none)", "user": "(empty message)", "assistant": "(empty reply)", "tool": "(no output)"}
"""Placeholders for empty content, which many providers refuse, by role."""

_NAME_LENGTH = 64


def compact(value: Any) -> bytes:
    """Return `value` as compact JSON in UTF-8. Characters that cannot be encoded are replaced."""
    return without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def never_blank(content: str, role: str) -> str:
    """Return `content`, or the placeholder for the role if it is blank."""
    return content if content.strip() else EMPTY[role]


def wire_name(name: str) -> str:
    """Return a tool's name in a form that providers accept: models may have invented names in the past."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return safe[:_NAME_LENGTH] or UNNAMED


def object_text(arguments: str) -> str:
    """Return arguments as the text of a JSON object, repaired if necessary; `{}` if that is not possible."""
    return repair_arguments(arguments)[0] or "{}"


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format and a tool mode, which are independent of each other."""

    format: WireFormat
    mode: Codec

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> bytes:
        """Return the wire form of the system prompt, with the mode's instructions on calling tools."""
        return self.format.system(self.mode.system(prompt, tools))

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ANY) -> bytes:
        """Return the wire form of the tools; empty if the mode does not use the format's field for them."""
        return self.format.tools(prepare_tools(self.mode.native_tools(tools), dialect), dialect)

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """Return the JSON schema that the whole reply must follow; None if there is none."""
        return self.mode.reply_schema(tools)

    def framer(self, owner: str = "", head: bytes = b"", dialect: Dialect = ANY) -> Framer:
        """Return a framer that rewrites messages in the tool mode first; see `WireFormat.framer`."""
        return _ModeFramer(self.mode, self.format.framer(owner, head, dialect))

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return self.mode.decoder(tools)


def prepare_tools(tools: Sequence[ToolSpec], dialect: Dialect) -> Sequence[ToolSpec]:
    """Return the tools in the form that the dialect requires, without those that the model refused."""
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
    """Return a digest of a tool's schema, by which a refused tool is recognised until its schema changes."""
    return hashlib.sha256(json.dumps(tool.parameters, sort_keys=True).encode()).hexdigest()[:12]


class _ModeFramer:
    """A framer for messages that the tool mode has rewritten."""

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
