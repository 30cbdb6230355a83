"""The wire format `chat`: OpenAI's chat completions, kept to what every compatible provider takes.

A frame is one message. The system prompt is a message too, the first one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.messages import Message, Sealed, ToolCall
from agent.model.codecs.pictures import content_parts, without_lost
from agent.model.protocol import Frame, ModelRequest, Thinking, ToolSpec
from agent.model.thinking_levels import effort_of
from agent.model.transport.chunk_seals import BLOCKS, DETAILS, EXTRA
from agent.model.transport.chunks import ChunkReader
from agent.model.wire_text import EMPTY, compact, filled, object_text, wire_name

LONGEST_ID = 40
"""Characters of a call's id that every provider takes."""

_OWN_FIELDS = ("model", "messages")
_UNKNOWN_FIELD = re.compile(
    r"unsupported|not support|unrecognized|not recognized|unknown|unexpected|not permitted|extra|not allowed"
    r"|deprecated|not a valid|invalid (?:field|parameter|argument)|max_completion_tokens",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """How one model wants its request; learned from what it refuses."""

    stream_options: bool = True
    limit_field: str = "max_tokens"
    temperature: bool = True
    effort: bool = True

    def without(self, complaint: str) -> ChatDialect | None:
        """The dialect to try after a refusal, or None if it does not name a field we can leave out."""
        if self.stream_options and re.search(r"stream_options|include_usage", complaint):
            return replace(self, stream_options=False)
        if self.effort and "reasoning_effort" in complaint:
            return replace(self, effort=False)
        if not _UNKNOWN_FIELD.search(complaint) or "too large" in complaint:
            return None
        if self.limit_field == "max_tokens" and "max_tokens" in complaint:
            return replace(self, limit_field="max_completion_tokens")
        if self.limit_field == "max_completion_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit_field="")
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        return None


class ChatFormat:
    """See the module's text."""

    name = "chat"
    title = "chat completions"
    endpoint = "/chat/completions"
    marks_cache = False

    def system(self, prompt: str) -> bytes:
        """The system prompt as a message; an empty one too, as some templates need it."""
        return compact({"role": "system", "content": filled(prompt, "system")})

    def tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """The `tools` field, or nothing if no tool is on offer."""
        return compact([_wire_tool(tool) for tool in tools]) if tools else b""

    def framer(self, owner: str, head: bytes) -> ChatFramer:
        return ChatFramer(owner)

    def dialect(self, model: str) -> ChatDialect:
        return ChatDialect()

    def body(self, request: ModelRequest, dialect: ChatDialect = ChatDialect()) -> bytes:  # noqa: B008, RUF100 - frozen
        """The body of a request. Messages and tools go in as the bytes they are."""
        settings = _settings(request, dialect)
        settings |= {name: value for name, value in request.extra.items() if name not in _OWN_FIELDS}
        head = b'{"model":' + json.dumps(request.model).encode() + b',"messages":['
        tail = b"]" + (b',"tools":' + request.tools if request.tools else b"")
        tail += b"," + json.dumps(settings, separators=(",", ":")).encode()[1:]
        messages = [request.system] if request.system else []
        messages += [frame.data for frame in request.frames]
        if len(messages) < 2:
            return head + b"".join(messages) + tail
        # Joined in one go: a long conversation is copied once.
        messages[0] = head + messages[0]
        messages[-1] += tail
        return b",".join(messages)

    def headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def reader(self) -> ChunkReader:
        return ChunkReader()


class ChatFramer:
    """Messages one by one; nothing depends on what came before. Of reasoning only what was signed or
    encrypted is sent, and only to the model that wrote it."""

    digest = ""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def frames(self, message: Message) -> list[Frame]:
        """The message. Arguments of calls are always the text of a JSON object."""
        own = message.role == "assistant" and message.model == self._owner
        if message.images:
            message = without_lost(message)
        sealed = message.sealed if own and message.sealed and message.sealed.format == FORMAT.name else None
        return [Frame(_wire(message, sealed), message.role, images=len(message.images), own=own)]

    def may_think(self, wanted: Thinking | None) -> bool:
        return True


def _settings(request: ModelRequest, dialect: ChatDialect) -> dict[str, Any]:
    settings: dict[str, Any] = {"stream": True}
    if dialect.stream_options:
        settings["stream_options"] = {"include_usage": True}
    if request.max_output is not None and dialect.limit_field:
        settings[dialect.limit_field] = request.max_output
    if request.temperature is not None and dialect.temperature:
        settings["temperature"] = request.temperature
    if dialect.effort and (effort := effort_of(request.thinking)):
        settings["reasoning_effort"] = effort
    if request.reply_schema is not None:
        schema = {"name": "reply", "schema": request.reply_schema}
        settings["response_format"] = {"type": "json_schema", "json_schema": schema}
    return settings


def _wire(message: Message, sealed: Sealed | None) -> bytes:
    if message.images:
        text = compact(message.content) if message.content.strip() else b""
        return b'{"role":"user","content":' + content_parts(text, message.images) + b"}"
    content: str | None = message.content if message.content.strip() else EMPTY[message.role]
    wire: dict[str, Any] = {"role": message.role, "content": content}
    if message.role == "tool":
        wire = {"role": "tool", "tool_call_id": _wire_id(message.call_id), "content": content}
    elif message.role == "assistant" and message.tool_calls:
        wire["content"] = message.content if message.content.strip() else None
        wire["tool_calls"] = [_wire_call(call) for call in message.tool_calls]
    for part in sealed.parts if sealed is not None else ():
        _put_back(wire, json.loads(part.data))
    return compact(wire)


def _put_back(wire: dict[str, Any], part: dict[str, Any]) -> None:
    """Put a sealed part where the provider had it."""
    calls = wire.get("tool_calls", ())
    if part["type"] in (DETAILS, BLOCKS):
        wire[part["type"]] = part[part["type"]]
    elif part["type"] == EXTRA and part["call"] < len(calls):
        calls[part["call"]][EXTRA] = part[EXTRA]


def _wire_id(call_id: str) -> str:
    """A call's id as providers take it: not empty, not long, no blanks or control characters."""
    if len(call_id) > LONGEST_ID:
        return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
    return "".join(char if char.isprintable() and not char.isspace() else "_" for char in call_id) or "call_0"


def _wire_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": object_text(call.arguments)}
    return {"id": _wire_id(call.id), "type": "function", "function": function}


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


FORMAT = ChatFormat()
