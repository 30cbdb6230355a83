"""What the scripted model answers: replies as data, and their form on the wire.

A `Reply` says what the model means (text, reasoning, calls) and how the answer
travels (line ends, sizes of pieces, where it breaks off). `tests.support.faults`
changes the second without touching the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Payload = dict[str, Any] | str
"""One event of the stream: a chunk, or text that is sent as it stands."""
Edit = Callable[[list[Payload]], list[Payload]]

DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. An empty `id` is filled in when the reply is sent, unique within the conversation."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How events become bytes."""

    newline: str = "\n"
    prefix: str = "data: "
    bom: bool = False
    comments: bool = False
    """A `:` comment before each event, as providers send to keep a connection alive."""
    event_lines: bool = False
    """`event:` and `id:` lines before each `data:` line."""
    multiline: bool = False
    """JSON spread over several `data:` lines."""
    ascii: bool = False
    """Everything outside ASCII as `\\u` escapes."""
    open_end: bool = False
    """The blank line after the last event is missing."""

    def encode(self, payload: Payload) -> bytes:
        indent = 1 if self.multiline else None
        text = (
            payload
            if isinstance(payload, str)
            else json.dumps(payload, ensure_ascii=self.ascii, indent=indent)
        )
        lines = [self.prefix + line for line in text.split("\n")]
        if self.event_lines:
            lines = ["event: message", "id: 7", "retry: 1000", *lines]
        if self.comments:
            lines = [": keep-alive", "", ":", *lines]
        return (self.newline.join([*lines, "", ""])).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One scripted answer. Positions are byte offsets in the body; negative ones count from its end."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = "auto"
    """`auto`: `tool_calls` when there are calls, else `stop`."""
    usage: Mapping[str, Any] | Literal["auto"] | None = "auto"
    reasoning_field: str = "reasoning_content"
    piece: int = 24
    """Characters per delta, of text and arguments alike."""

    edits: tuple[Edit, ...] = ()
    wire: Wire = Wire()
    stream: bool = True
    """False: a plain JSON answer, even when a stream was asked for."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    body: bytes | None = None
    """Sent as it stands, in place of a completion."""

    until: Callable[[], object] | None = None
    """Nothing is sent before this is true; where there is a `stall_at`, nothing beyond it."""
    delay: float = 0.0
    """Seconds before the first byte."""
    pace: float = 0.0
    """Seconds between events."""
    split: int = 0
    """Bytes per HTTP chunk; 0 = as large as possible."""
    stall_at: int | None = None
    stall: float = 0.0
    """Seconds without a byte at `stall_at`."""
    cut_at: int | None = None
    cut: Literal["fin", "rst", "clean"] = "fin"
    """How it breaks off at `cut_at`: connection closed, connection reset, or a proper end of the body."""


ScriptItem = Reply | Callable[[Any], Reply]


def say(text: str, **options: Any) -> Reply:
    """An answer in words."""
    return Reply(text=text, **options)


def call(tool: str, /, **arguments: Any) -> Reply:
    """One tool call."""
    return calls((tool, arguments))


def calls(*wanted: tuple[str, Mapping[str, Any] | str], text: str = "", **options: Any) -> Reply:
    """Several tool calls at once. Arguments given as text are sent as they stand."""
    made = (
        Call(name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))
        for name, arguments in wanted
    )
    return Reply(text=text, calls=tuple(made), **options)


def refuse(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    code: str | int | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An HTTP error with an OpenAI error object."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Reply(
        status=status,
        headers=headers or {},
        content_type="application/json",
        body=json.dumps({"error": error}, ensure_ascii=False).encode(),
    )


def exhausted(step: int) -> Reply:
    """The answer to a request the script has nothing for."""
    return refuse(400, f"The script has no reply number {step}.", kind="script", code="script_exhausted")


def by_step(replies: Sequence[ScriptItem], *, skip: int = 0) -> Callable[[Any], Reply]:
    """A script that looks at the conversation: reply n answers a request with n assistant messages.

    A client that was killed and resumed, or that tries again, gets the reply it
    needs. `skip` assistant messages at the start (worked examples) do not count.
    """

    def choose(request: Any) -> Reply:
        step = sum(message.get("role") == "assistant" for message in request.messages) - skip
        if not 0 <= step < len(replies):
            return exhausted(step)
        return resolve(replies[step], request)

    return choose


def first(bad: Reply, then: Reply, times: int = 1) -> Callable[[Any], Reply]:
    """A script item that goes wrong `times` times before it comes right."""
    left = times

    def choose(_request: Any) -> Reply:
        nonlocal left
        left -= 1
        return bad if left >= 0 else then

    return choose


def resolve(item: ScriptItem, request: Any) -> Reply:
    return item if isinstance(item, Reply) else item(request)


def with_ids(reply: Reply, messages: Sequence[Any]) -> Reply:
    """The reply with an id for every call: the same for the same conversation, never used before in it."""
    named = tuple(
        made if made.id else replace(made, id=f"call_{len(messages)}_{position}")
        for position, made in enumerate(reply.calls)
    )
    return replace(reply, calls=named)


def completion(reply: Reply, model: str, prompt_chars: int) -> dict[str, Any]:
    """The reply as one chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message[reply.reasoning_field] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}
            for made in reply.calls
        ]
    data = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_of(reply), "logprobs": None}],
    }
    counted = usage_of(reply, prompt_chars)
    return data if counted is None else {**data, "usage": counted}


def chunks(reply: Reply, model: str, prompt_chars: int, include_usage: bool) -> list[Payload]:
    """The reply as the events of a stream, edits applied."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{reply.reasoning_field: piece} for piece in _pieces(reply.reasoning, reply.piece)]
    deltas += [{"content": piece} for piece in _pieces(reply.text, reply.piece)]
    for index, made in enumerate(reply.calls):
        deltas += _call_deltas(index, made, reply.piece)
    payloads: list[Payload] = [_chunk(model, [_choice(delta)]) for delta in deltas]
    finish = finish_of(reply)
    if finish is not None:
        payloads.append(_chunk(model, [_choice({}, finish)]))
    counted = usage_of(reply, prompt_chars)
    if include_usage and counted is not None:
        payloads.append({**_chunk(model, []), "usage": counted})
    payloads.append(DONE)
    for edit in reply.edits:
        payloads = edit(payloads)
    return payloads


def finish_of(reply: Reply) -> str | None:
    if reply.finish == "auto":
        return "tool_calls" if reply.calls else "stop"
    return reply.finish


def usage_of(reply: Reply, prompt_chars: int) -> Mapping[str, Any] | None:
    if reply.usage != "auto":
        return reply.usage
    written = len(reply.text) + len(reply.reasoning) + sum(len(made.arguments) for made in reply.calls)
    prompt, output = max(1, prompt_chars // 4), max(1, written // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": prompt // 2},
        "completion_tokens_details": {"reasoning_tokens": len(reply.reasoning) // 4},
    }


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _call_deltas(index: int, made: Call, size: int) -> list[dict[str, Any]]:
    head = {
        "index": index,
        "id": made.id,
        "type": "function",
        "function": {"name": made.name, "arguments": ""},
    }
    tail = [{"index": index, "function": {"arguments": piece}} for piece in _pieces(made.arguments, size)]
    return [{"tool_calls": [fragment]} for fragment in (head, *tail)]


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _chunk(model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
        "choices": choices,
    }
