"""The wire format `responses`: OpenAI's Responses API, without any state stored by the provider.

A frame is one item. Reasoning arrives encrypted and is sent back unchanged to the model that wrote it, before
the items that followed it; otherwise it is left out. The provider's cache needs no marks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.core.messages import Image, Message, SealedPart
from agent.model.calls.call_ids import CallIds
from agent.model.codecs.native import base64_of, without_lost
from agent.model.dialect import ANY, Dialect
from agent.model.effort import effort_of
from agent.model.protocol import THOUGHT, Frame, ModelRequest, Thinking, ToolSpec
from agent.model.transport.item_events import PHASE, ItemReader
from agent.model.wire_format import compact, never_blank, object_text, wire_name

LONGEST_ID = 64

_CALL, _RESULT = b'{"type":"function_call"', b'{"type":"function_call_output"'
_OWN_FIELDS = frozenset({"model", "input", "instructions", "tools", "stream", "store"})


class ResponsesFormat:
    """The wire format for the Responses API."""

    name = "responses"
    title = "Responses"
    endpoint = "/responses"
    marks_cache = False

    def system(self, prompt: str) -> bytes:
        """Return the system prompt as a JSON string; empty bytes for an empty prompt."""
        return compact(prompt) if prompt.strip() else b""

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ANY) -> bytes:
        return compact([_wire_tool(tool) for tool in tools]) if tools else b""

    def framer(self, owner: str, head: bytes, dialect: Dialect = ANY) -> ResponsesFramer:
        return ResponsesFramer(owner, dialect)

    def body(self, request: ModelRequest, dialect: Dialect = ANY) -> bytes:
        """Return the body of a request; items, instructions and tools are inserted as bytes."""
        settings = _settings(request, dialect)
        settings |= {name: value for name, value in request.extra.items() if name not in _OWN_FIELDS}
        settings = {name: value for name, value in settings.items() if not dialect.lacks(name)}
        pieces = [compact({"model": request.model, **settings})[:-1]]
        if request.system:
            pieces += [b',"instructions":', request.system]
        if request.tools:
            pieces += [b',"tools":', request.tools]
        thoughts = _keeps_thoughts(request.model, dialect)
        kept = [frame.data for frame in request.frames if thoughts or frame.kind != THOUGHT]
        if dialect.roles.single_calls:
            kept = list(_one_by_one(kept))
        return b"".join([*pieces, b',"input":[', b",".join(kept), b"]}"])

    def thinking_problem(self, request: ModelRequest, dialect: Dialect = ANY) -> str:
        return ""

    def headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def reader(self) -> ItemReader:
        return ItemReader()


class ResponsesFramer:
    """Builds the items of one conversation."""

    digest = ""

    def __init__(self, owner: str, dialect: Dialect = ANY) -> None:
        self._owner = owner
        form = dialect.calls.id
        self._texts = dialect.calls.text
        self._ids = CallIds(LONGEST_ID, "plain" if form == "any" else form)

    def frames(self, message: Message) -> list[Frame]:
        """Return the items of the next message."""
        match message.role:
            case "assistant":
                return self._answer(message)
            case "tool":
                return [self._result(message)]
            case _:
                return [_user_item(message)]

    def may_think(self, wanted: Thinking | None) -> bool:
        return True

    def _result(self, message: Message) -> Frame:
        call_id = self._ids.result_id(message.call_id)
        content = never_blank(message.content, "tool")
        if call_id is None:
            return Frame(compact(_message_item("user", "input_text", content)), "user")
        item = {"type": "function_call_output", "call_id": call_id, "output": content}
        return Frame(compact(item), "user")

    def _answer(self, message: Message) -> list[Frame]:
        own = message.model == self._owner
        sealed = message.sealed
        parts = sealed.parts if own and sealed is not None and sealed.format == FORMAT.name else ()
        frames = list(self._items(message, parts, own))
        while frames and frames[-1].kind == THOUGHT:
            frames.pop()
        empty = _message_item("assistant", "output_text", never_blank("", "assistant"))
        return frames or [Frame(compact(empty), "assistant", own=own)]

    def _items(self, message: Message, parts: Sequence[SealedPart], own: bool) -> Iterator[Frame]:
        """Yield texts, calls and reasoning in the order in which the model wrote them."""
        ids = self._ids.add(message.tool_calls)
        calls = list(zip(message.tool_calls, ids, strict=True))
        text_at = calls_at = 0
        phase: dict[str, Any] = {}
        for part in (*parts, SealedPart("", len(message.content), len(calls))):
            text = message.content[text_at : part.text]
            if text.strip() and (self._texts or not calls):
                item = _message_item("assistant", "output_text", text) | phase
                phase = {}
                yield Frame(compact(item), "assistant", own=own)
            text_at = max(text_at, part.text)
            for call, call_id in calls[calls_at : part.calls]:
                yield _call(call_id, call.name, call.arguments, own)
            calls_at = max(calls_at, part.calls)
            if part.data:
                kept = json.loads(part.data)
                if kept.get("type") == PHASE:
                    phase = {"phase": kept["phase"]}
                else:
                    yield Frame(part.data.encode(), "assistant", THOUGHT, own=own)


def _one_by_one(items: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the items, with each call followed directly by its result."""
    results = {json.loads(item)["call_id"]: item for item in items if item.startswith(_RESULT)}
    for item in items:
        if not item.startswith(_RESULT):
            yield item
        if item.startswith(_CALL) and (result := results.get(json.loads(item)["call_id"])) is not None:
            yield result


def _keeps_thoughts(model: str, dialect: Dialect) -> bool:
    """Return whether encrypted reasoning is requested and sent back."""
    if dialect.lacks("encrypted_content") or dialect.lacks("reasoning"):
        return False
    return dialect.thinking.sent_back != "never" and dialect.thinks(model).reasons


def _settings(request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
    settings: dict[str, Any] = {"stream": True, "store": False}
    reasons = dialect.thinks(request.model).reasons
    if reasons and not dialect.lacks("reasoning"):
        wanted = _lowest(request.model, dialect) if request.thinking == "off" else effort_of(request.thinking)
        reasoning = {"effort": wanted} if wanted else {}
        if not dialect.lacks("summary") and request.thinking != "off":
            reasoning["summary"] = "auto"
        if reasoning:
            settings["reasoning"] = reasoning
    if _keeps_thoughts(request.model, dialect):
        settings["include"] = ["reasoning.encrypted_content"]
    if request.max_output is not None:
        most = dialect.limits.output_max or request.max_output
        settings["max_output_tokens"] = max(min(request.max_output, most), 16)
    if request.temperature is not None and not reasons:
        settings["temperature"] = request.temperature
    if request.reply_schema is not None:
        form = {"type": "json_schema", "name": "reply", "schema": request.reply_schema, "strict": False}
        settings["text"] = {"format": form}
    settings["prompt_cache_key"] = hashlib.sha256(request.system + request.tools).hexdigest()[:32]
    return settings


def _lowest(model: str, dialect: Dialect) -> str:
    """Return the lowest effort that the model accepts, used for `off`; empty if there is none."""
    words = ("none", "minimal", "low")
    left = words[words.index(dialect.thinks(model).lowest) :]
    return next((word for word in left if not dialect.lacks(f"effort {word}")), "")


def _message_item(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _user_item(message: Message) -> Frame:
    """Return the item of a user message."""
    message = without_lost(message)
    parts: list[bytes] = []
    if message.content.strip() or not message.images:
        parts.append(compact({"type": "input_text", "text": never_blank(message.content, "user")}))
    parts += map(_image, message.images)
    data = b'{"type":"message","role":"user","content":[' + b",".join(parts) + b"]}"
    return Frame(data, "user", images=len(message.images))


def _image(image: Image) -> bytes:
    """Return an image part, built without an encoder: base64 needs no escaping, and an encoder would block
    other work.
    """
    kind = json.dumps(f"data:{image.attachment.media_type};base64,").encode()
    return b'{"type":"input_image","image_url":' + kind[:-1] + base64_of(image.data) + b'"}'


def _call(call_id: str, name: str, arguments: str, own: bool) -> Frame:
    item = {"type": "function_call", "call_id": call_id, "name": wire_name(name)}
    return Frame(compact({**item, "arguments": object_text(arguments)}), "assistant", own=own)


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    described = {"description": tool.description} if tool.description.strip() else {}
    return {"type": "function", "name": tool.name, **described, "parameters": parameters, "strict": False}


FORMAT = ResponsesFormat()
