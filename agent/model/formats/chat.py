"""The wire format `chat`: OpenAI's chat completions, limited to what every compatible provider accepts.

A frame is one message. The system prompt is the first message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.core.messages import Message, ToolCall
from agent.model.calls.call_ids import CallIds
from agent.model.codecs.native import content_parts, without_lost
from agent.model.dialect import ANY, Dialect
from agent.model.effort import effort_of
from agent.model.message_order import CALLS_ONLY, in_order
from agent.model.protocol import Frame, ModelRequest, Thinking, ToolSpec
from agent.model.transport.chunks import BLOCKS, DETAILS, EXTRA, ChunkReader
from agent.model.wire_format import EMPTY, compact, never_blank, object_text, wire_name

LONGEST_ID = 40
"""The maximum length of a call id, in characters, that every provider accepts."""

USUAL_OUTPUT = 8_192
"""The output limit if one is required and the model's limit is unknown."""
_OWN_FIELDS = ("model", "messages")
NO_THOUGHT = "(none)"
"""The placeholder for missing thoughts, for models that require some."""


class ChatFormat:
    """The wire format for chat completions."""

    name = "chat"
    title = "chat completions"
    endpoint = "/chat/completions"
    marks_cache = False

    def system(self, prompt: str) -> bytes:
        """Return the system prompt as a message, even if it is empty, because some templates need one."""
        return compact({"role": "system", "content": never_blank(prompt, "system")})

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ANY) -> bytes:
        """Return the value of the field `tools`; empty bytes without tools."""
        return compact([_wire_tool(tool) for tool in tools]) if tools else b""

    def framer(self, owner: str, head: bytes, dialect: Dialect = ANY) -> ChatFramer:
        return ChatFramer(owner, dialect)

    def body(self, request: ModelRequest, dialect: Dialect = ANY) -> bytes:
        """Return the body of a request. Messages and tools are inserted as bytes."""
        settings = _settings(request, dialect)
        settings |= {name: value for name, value in request.extra.items() if name not in _OWN_FIELDS}
        settings = {name: value for name, value in settings.items() if not dialect.lacks(name)}
        head = b'{"model":' + json.dumps(request.model).encode() + b',"messages":['
        tail = b"]" + (b',"tools":' + request.tools if request.tools else b"")
        tail += (b"," + json.dumps(settings, separators=(",", ":")).encode()[1:]) if settings else b"}"
        messages = [request.system] if request.system else []
        messages += [frame.data for frame in request.frames]
        if dialect.roles != ANY.roles:
            messages = in_order(request.system, request.frames, dialect.roles)
        if len(messages) < 2:
            return head + b"".join(messages) + tail
        # Joined in one step: a long conversation is copied once.
        messages[0] = head + messages[0]
        messages[-1] += tail
        return b",".join(messages)

    def thinking_problem(self, request: ModelRequest, dialect: Dialect = ANY) -> str:
        return ""

    def headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def reader(self) -> ChunkReader:
        return ChunkReader()


class ChatFramer:
    """Builds the messages of one conversation.

    Signed or encrypted thoughts are sent only to the model that wrote them. Plain thoughts are sent in the
    field that the dialect names, if it allows them.
    """

    digest = ""

    def __init__(self, owner: str, dialect: Dialect = ANY) -> None:
        self._owner = owner
        self._dialect = dialect
        form = dialect.calls.id
        self._ids = CallIds(form=form) if form != "any" else None
        self._names: dict[str, str] = {}

    def frames(self, message: Message) -> list[Frame]:
        """Return the frame for the next message. Arguments of calls are always the text of a JSON object."""
        own = message.role == "assistant" and message.model == self._owner
        if message.images:
            message = without_lost(message)
        return [Frame(self._wire(message, own), message.role, images=len(message.images), own=own)]

    def may_think(self, wanted: Thinking | None) -> bool:
        return True

    def _wire(self, message: Message, own: bool) -> bytes:
        if message.images:
            text = compact(message.content) if message.content.strip() else b""
            return b'{"role":"user","content":' + content_parts(text, message.images) + b"}"
        content: str | None = message.content if message.content.strip() else EMPTY[message.role]
        wire: dict[str, Any] = {"role": message.role, "content": content}
        if message.role == "tool":
            wire = {"role": "tool", "tool_call_id": self._result_id(message.call_id), "content": content}
            if self._dialect.calls.named:
                wire["name"] = self._names.get(message.call_id) or "tool"
        elif message.role == "assistant":
            if message.tool_calls:
                rules = self._dialect.calls
                bare = {"empty": "", "filled": CALLS_ONLY}.get(rules.content)
                wire["content"] = message.content if message.content.strip() and rules.text else bare
                self._names = {call.id: wire_name(call.name) for call in message.tool_calls}
                ids = self._give_ids(message.tool_calls)
                wire["tool_calls"] = [
                    _wire_call(call, id) for call, id in zip(message.tool_calls, ids, strict=True)
                ]
            self._think(wire, message, own)
        return compact(wire)

    def _think(self, wire: dict[str, Any], message: Message, own: bool) -> None:
        """Insert the message's thoughts, as the dialect requires them."""
        rules = self._dialect.thinking
        if rules.sent_back == "never":
            return
        if rules.key and (message.tool_calls or rules.sent_back == "always"):
            if own and message.reasoning:
                wire[rules.key] = message.reasoning
            elif rules.foreign != "drop":
                wire[rules.key] = "" if rules.foreign == "empty" else NO_THOUGHT
        if own and message.sealed is not None and message.sealed.format == FORMAT.name:
            for part in message.sealed.parts:
                _put_back(wire, json.loads(part.data))

    def _give_ids(self, calls: Sequence[ToolCall]) -> list[str]:
        return self._ids.add(calls) if self._ids is not None else [_wire_id(call.id) for call in calls]

    def _result_id(self, call_id: str) -> str:
        given = self._ids.result_id(call_id) if self._ids is not None else None
        return given or _wire_id(call_id)


def _settings(request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
    settings: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    if dialect.lacks("stream"):
        settings = {}
    limit = dialect.limits.output_name or "max_tokens"
    asked = request.max_output
    if asked is None and dialect.limits.output_needed:
        asked = request.usual_output or USUAL_OUTPUT
    if asked is not None and limit != "-":
        most = dialect.limits.output_max
        settings[limit] = min(asked, most) if most else asked
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if effort := effort_of(request.thinking):
        settings["reasoning_effort"] = effort
    if request.reply_schema is not None:
        schema = {"name": "reply", "schema": request.reply_schema}
        settings["response_format"] = {"type": "json_schema", "json_schema": schema}
    return settings


def _put_back(wire: dict[str, Any], part: dict[str, Any]) -> None:
    """Insert a sealed part into the field or the call from which it came."""
    calls = wire.get("tool_calls", ())
    if part["type"] in (DETAILS, BLOCKS):
        wire[part["type"]] = part[part["type"]]
    elif part["type"] == EXTRA and part["call"] < len(calls):
        calls[part["call"]][EXTRA] = part[EXTRA]


def _wire_id(call_id: str) -> str:
    """Return a call id in a form that providers accept: short, not empty, without spaces or control
    characters.
    """
    if len(call_id) > LONGEST_ID:
        return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
    return "".join(char if char.isprintable() and not char.isspace() else "_" for char in call_id) or "call_0"


def _wire_call(call: ToolCall, call_id: str) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": object_text(call.arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


FORMAT = ChatFormat()
