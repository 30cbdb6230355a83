"""The wire format `anthropic`: the Messages API.

A frame is one content block. When a body is built, consecutive blocks of one role are joined into one
message. So roles alternate, all results of a turn are in one message, and a sent request stays a prefix of
the next. Cache marks are added to blocks at that time.

Signed thinking is sent back only if it is valid. It must go to the model that wrote it. Some models also
require that it follows exactly the content that they had read. Otherwise it is left out; a turn whose calls
began without it continues without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.core.messages import Image, Message, Sealed, SealedPart
from agent.model.calls.call_ids import CallIds
from agent.model.codecs.native import base64_of, without_lost
from agent.model.dialect import ANY, Dialect
from agent.model.effort import keeps_thoughts, least_output, thinking_fields, thinking_problem
from agent.model.protocol import THOUGHT, Frame, ModelRequest, Thinking, ToolSpec
from agent.model.transport.block_events import BlockReader
from agent.model.wire_format import compact, never_blank, object_text, wire_name

VERSION = "2023-06-01"

USUAL_OUTPUT = 32_000
"""The largest default output limit; the limit is a required field."""
UNKNOWN_OUTPUT = 8_192
"""The output limit for a model whose limit is unknown."""

SEALED = "sealed"
"""The kind of a frame that only the provider reads and that is not a thought."""

_MARK = b',"cache_control":{"type":"ephemeral"}}'
_GOES_ON = b'{"type":"text","text":"(The conversation goes on.)"}'
_OPENING = {role: b'{"role":"%b","content":[' % role.encode() for role in ("user", "assistant")}
_OWN_FIELDS = frozenset({"model", "messages", "system", "tools", "stream", "max_tokens"})


class AnthropicFormat:
    """The wire format for the Messages API."""

    name = "anthropic"
    title = "Anthropic Messages"
    endpoint = "/messages"
    marks_cache = True

    def system(self, prompt: str) -> bytes:
        """Return the system prompt as a block; empty bytes for an empty prompt."""
        return compact({"type": "text", "text": prompt}) if prompt.strip() else b""

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ANY) -> bytes:
        return compact([_wire_tool(tool) for tool in tools]) if tools else b""

    def framer(self, owner: str, head: bytes, dialect: Dialect = ANY) -> AnthropicFramer:
        return AnthropicFramer(owner, head, dialect)

    def body(self, request: ModelRequest, dialect: Dialect = ANY) -> bytes:
        """Return the body of a request; blocks, system prompt and tools are inserted as bytes."""
        limit = _limit(request, dialect)
        thinking = thinking_fields(request.model, request.thinking, limit, dialect)
        head: dict[str, Any] = {"model": request.model, "max_tokens": limit, "stream": True, **thinking}
        if request.temperature is not None and "thinking" not in thinking:
            head["temperature"] = min(request.temperature, 1.0)
        if request.reply_schema is not None:
            form = {"type": "json_schema", "schema": request.reply_schema}
            head["output_config"] = {**head.get("output_config", {}), "format": form}
        head |= {name: value for name, value in request.extra.items() if name not in _OWN_FIELDS}
        head = {name: value for name, value in head.items() if not dialect.lacks(name)}
        marks = not dialect.lacks("cache_control")
        system, tools = request.system, request.tools
        if marks and system:
            system = system[:-1] + _MARK
        elif marks and tools:
            tools = tools[:-2] + _MARK + b"]"
        pieces = [compact(head)[:-1]]
        if system:
            pieces += [b',"system":[', system, b"]"]
        if tools:
            pieces += [b',"tools":', tools]
        keeps = keeps_thoughts(request.model, request.thinking, thinking, dialect)
        pieces += [b',"messages":[', *_messages(request, marks=marks, thoughts=keeps), b"]}"]
        return b"".join(pieces)

    def thinking_problem(self, request: ModelRequest, dialect: Dialect = ANY) -> str:
        return thinking_problem(request.model, request.thinking, _limit(request, dialect), dialect)

    def headers(self, api_key: str) -> Mapping[str, str]:
        return {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {})}

    def reader(self) -> BlockReader:
        return BlockReader()


class AnthropicFramer:
    """Builds the content blocks of one conversation."""

    def __init__(self, owner: str, head: bytes, dialect: Dialect = ANY) -> None:
        self._owner = owner
        self._thinks = dialect.thinks(owner)
        self._hash = hashlib.sha256(head)
        form = dialect.calls.id
        self._texts = dialect.calls.text
        self._ids = CallIds(form="plain" if form == "any" else form)
        self._after_results = False
        """True if the newest message contains results of calls, so that the turn continues."""
        self._loop_thinks: bool | None = None
        """True if all answers since the user's last message still have their thoughts; None if there are
        none.
        """

    @property
    def digest(self) -> str:
        return self._hash.copy().hexdigest()

    def frames(self, message: Message) -> list[Frame]:
        """Return the blocks of the next message."""
        match message.role:
            case "assistant":
                frames = self._answer(message)
                self._after_results = False
            case "tool":
                frames = [self._result(message)]
                self._after_results = True
            case _:
                frames = list(_user_frames(message))
                if not self._after_results:
                    self._loop_thinks = None
        for frame in frames:
            self._hash.update(frame.data)
        return frames

    def may_think(self, wanted: Thinking | None) -> bool:
        """Return whether the next request may ask for thinking.

        It must not if thinking is off, or in a turn that began without thoughts or has lost them.
        """
        if wanted == "off" or (wanted is None and not self._thinks.unasked):
            return False
        return self._loop_thinks is not False or self._thinks.always

    def _result(self, message: Message) -> Frame:
        call_id = self._ids.result_id(message.call_id)
        content = never_blank(message.content, "tool")
        if call_id is None:
            return _frame({"type": "text", "text": content}, "user")
        return _frame({"type": "tool_result", "tool_use_id": call_id, "content": content}, "user")

    def _answer(self, message: Message) -> list[Frame]:
        own = message.model == self._owner
        sealed = message.sealed if own else None
        frames = list(self._blocks(message, self._valid(sealed), own))
        while frames and frames[-1].kind == THOUGHT:
            frames.pop()
        frames = frames or [
            _frame({"type": "text", "text": never_blank("", "assistant")}, "assistant", own=own)
        ]
        starts = frames[0].kind == THOUGHT
        if self._loop_thinks is None:
            self._loop_thinks = starts
        elif not starts and (not own or sealed is not None):
            self._loop_thinks = False
        return frames

    def _valid(self, sealed: Sealed | None) -> tuple[SealedPart, ...]:
        """Return the sealed parts that may be sent.

        Some models accept their thoughts only after exactly the content that they had read.
        """
        if sealed is None or sealed.format != FORMAT.name:
            return ()
        if not self._thinks.binds or sealed.prefix == self.digest:
            return sealed.parts
        return tuple(part for part in sealed.parts if not _is_thought(part))

    def _blocks(self, message: Message, parts: Sequence[SealedPart], own: bool) -> Iterator[Frame]:
        """Yield texts, calls and sealed parts in the order in which the model wrote them."""
        ids = self._ids.add(message.tool_calls)
        calls = list(zip(message.tool_calls, ids, strict=True))
        end = SealedPart("", len(message.content), len(calls))
        text_at = calls_at = 0
        for part in (*parts, end):
            text = message.content[text_at : part.text]
            if text.strip() and (self._texts or not calls):
                yield _frame({"type": "text", "text": text}, "assistant", own=own)
            text_at = max(text_at, part.text)
            for call, call_id in calls[calls_at : part.calls]:
                yield _call(call_id, call.name, call.arguments, own)
            calls_at = max(calls_at, part.calls)
            if part.data:
                yield Frame(
                    part.data.encode(), "assistant", THOUGHT if _is_thought(part) else SEALED, own=own
                )


def _user_frames(message: Message) -> Iterator[Frame]:
    """Yield the blocks of a user message."""
    message = without_lost(message)
    if message.content.strip() or not message.images:
        yield _frame({"type": "text", "text": never_blank(message.content, "user")}, "user")
    for image in message.images:
        yield Frame(_image(image), "user", images=1)


def _image(image: Image) -> bytes:
    """Return an image block, built without an encoder: base64 needs no escaping, and an encoder would block
    other work.
    """
    kind = json.dumps(image.attachment.media_type).encode()
    head = b'{"type":"image","source":{"type":"base64","media_type":' + kind
    return head + b',"data":"' + base64_of(image.data) + b'"}}'


def _frame(block: dict[str, Any], role: str, *, own: bool = False) -> Frame:
    return Frame(compact(block), role, own=own)


def _call(call_id: str, name: str, arguments: str, own: bool) -> Frame:
    """Return the block of a call. Its arguments are inserted as JSON text."""
    head = compact({"type": "tool_use", "id": call_id, "name": wire_name(name)})
    return Frame(head[:-1] + b',"input":' + object_text(arguments).encode() + b"}", "assistant", own=own)


def _is_thought(part: SealedPart) -> bool:
    return json.loads(part.data).get("type") in ("thinking", "redacted_thinking")


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object", **(tool.parameters or {"properties": {}})}
    described = {"description": tool.description} if tool.description.strip() else {}
    return {"name": tool.name, **described, "input_schema": schema}


def _limit(request: ModelRequest, dialect: Dialect) -> int:
    """Return the maximum number of tokens in the reply, including thoughts."""
    usual = min(request.usual_output, USUAL_OUTPUT) if request.usual_output else UNKNOWN_OUTPUT
    limit = request.max_output or max(usual, least_output(request.model, request.thinking, dialect))
    most = dialect.limits.output_max
    return min(limit, most) if most else limit


def _messages(request: ModelRequest, *, marks: bool, thoughts: bool) -> list[bytes]:
    """Return the pieces of the messages. `marks` adds cache marks to the blocks at which the cached part
    ends.
    """
    marked = frozenset(request.marks) if marks else frozenset[int]()
    pieces, role, newest = list[bytes](), "", ""
    for at, frame in enumerate(request.frames):
        if frame.kind == THOUGHT and not thoughts:
            continue
        if frame.role == role:
            pieces.append(b",")
        elif role:
            pieces += [b"]},", _OPENING[frame.role]]
        elif frame.role == "user":
            pieces.append(_OPENING["user"])
        else:
            pieces += [_OPENING["user"], _GOES_ON, b"]},", _OPENING[frame.role]]
        data, role, newest = frame.data, frame.role, frame.kind
        if at in marked and newest != THOUGHT:
            data = data[:-1] + _MARK
        pieces.append(data)
    if not role:
        pieces += [_OPENING["user"], _GOES_ON]
    elif role != "user" and newest != SEALED:
        pieces += [b"]},", _OPENING["user"], _GOES_ON]
    return [*pieces, b"]}"]


FORMAT = AnthropicFormat()
