"""Four formats of model servers: what a request asks for, and the events of an answer.

A play is asked for in the person's text: `go NAME NUMBER RATE TURN`. All the server needs stands in the
request, so that it keeps nothing between two of them and any number of programs can use it at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PLAY = re.compile(r"\bgo (\w+) (\d+) (\d+) (\d+)\b")
START, END = 0x3400, 0x3600
"""Characters that nothing else shows; each turn has its own two, which no escape sequence can cut."""
TASK = (
    "ls",
    "printf 'one\\ntwo\\n' > notes.txt",
    "cat notes.txt",
    "grep -n two notes.txt",
    "python3 -c 'print(6 * 7)'",
    "wc -l notes.txt",
)
UNDO = "printf 'changed\\n' > kept.txt; rm gone.txt; printf 'more\\n' >> ignored.log"
NAME = "Work"
"""What a request without tools gets, which asks for a title or a summary."""


def start_mark(turn: int) -> str:
    """The first character of the answer of a turn."""
    return chr(START + turn)


def end_mark(turn: int) -> str:
    """The last character of the answer of a turn."""
    return chr(END + turn)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request says that matters here."""

    form: str
    """`chat`, `responses`, `messages` or `gemini`."""
    text: str
    """What the person wrote last."""
    results: int
    """Results of tools after it."""
    tools: int
    stream: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """Pieces of text, at most so many a second (0: at once), or one call of a tool."""

    pieces: tuple[str, ...] = ()
    rate: int = 0
    call: tuple[str, dict[str, Any]] | None = None
    read: int = 1000
    """Tokens of the request; some programs compare them with what they sent."""


@dataclass(frozen=True, slots=True)
class Event:
    """Bytes to send; those of a piece of text are held back to the rate."""

    data: bytes
    paced: bool = False


def read_ask(form: str, body: Mapping[str, Any], *, stream: bool | None = None) -> Ask:
    """What a request of this form asks for. Raises `KeyError` or `TypeError` for a body of another form."""
    turns = list(_turns(form, body))
    last = max(
        (at for at, (who, text) in enumerate(turns) if who == "user" and PLAY.search(text)), default=-1
    )
    if last < 0:
        last = max((at for at, (who, _text) in enumerate(turns) if who == "user"), default=-1)
    tools = body.get("tools") or []
    if form == "gemini":
        tools = [each for part in tools for each in part.get("functionDeclarations", [])]
    return Ask(
        form,
        turns[last][1] if turns else "",
        sum(who == "result" for who, _text in turns[last + 1 :]),
        len(tools),
        bool(body.get("stream")) if stream is None else stream,
    )


def _turns(form: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Who said what, in order: `user`, `model` or `result`."""
    if form == "gemini":
        for turn in body["contents"]:
            for part in turn["parts"]:
                if "functionResponse" in part:
                    yield "result", ""
                elif turn.get("role") != "model" and "text" in part:
                    yield "user", part["text"]
    elif form == "responses":
        items = body["input"]
        for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
            if str(item.get("type", "")).endswith("_call_output"):
                yield "result", ""
            elif item.get("role") == "user":
                yield "user", _text(item["content"])
    else:
        for message in body["messages"]:
            content = message.get("content") or ""
            if message["role"] == "tool":
                yield "result", ""
            elif message["role"] == "user":
                blocks = content if isinstance(content, list) else []
                yield from (("result", "") for block in blocks if block.get("type") == "tool_result")
                if text := _text(content):
                    yield "user", text


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))


def plan(ask: Ask, shell: Mapping[str, Any]) -> Answer:
    """The scripted answer. `shell` is the tool's name and arguments, with `COMMAND` in its place."""
    found = PLAY.search(ask.text)
    if not ask.tools:
        return Answer((NAME,))
    if found is None:
        return Answer((start_mark(0), "Hello, what is there to do? ", end_mark(0)))
    name = found[1]
    number, rate, turn = map(int, found.groups()[1:])
    if name == "stream":
        words = (
            f"w{at:05}{'.' if at % 40 == 39 else ''}{' ' if at % 12 < 11 else chr(10)}"
            for at in range(number)
        )
        return Answer((start_mark(turn), *words, end_mark(turn)), rate)
    if name == "lines":
        lines = (f"L{at:03} of the answer\n" for at in range(1, number + 1))
        return Answer((f"{start_mark(turn)}\n```\n", *lines, f"```\n{end_mark(turn)}"), rate)
    commands = {"task": TASK, "undo": (UNDO,)}.get(name) or [f"true {at} {turn}" for at in range(number)]
    if ask.results < len(commands):
        return Answer(call=(shell["tool"], fill(shell["arguments"], commands[ask.results])))
    return Answer((start_mark(turn), "All done. ", end_mark(turn)))


def fill(value: Any, command: str) -> Any:
    """A copy of a value in which the command stands for each `COMMAND`."""
    if isinstance(value, Mapping):
        return {name: fill(each, command) for name, each in value.items()}
    if isinstance(value, list):
        return [fill(each, command) for each in value]
    return value.replace("COMMAND", command) if isinstance(value, str) else value


def events(ask: Ask, model: str, answer: Answer, number: int) -> Iterator[Event]:
    """The answer as server-sent events of its form; `number` tells its names from those of other answers."""
    yield from EVENTS[ask.form](model, answer, number)


def whole(ask: Ask, model: str, answer: Answer, number: int) -> bytes:
    """The answer to a request without a stream, as one JSON value."""
    text = "".join(answer.pieces)
    name, arguments = answer.call or ("", {})
    value: dict[str, Any]
    if ask.form == "chat":
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if name:
            message["tool_calls"] = [_chat_call(number, name, arguments)]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if name else "stop"}
        value = _chat(model, number, [choice], "chat.completion") | {"usage": _chat_usage(answer.read)}
    elif ask.form == "messages":
        value = _message(model, number, answer.read) | {"stop_reason": "tool_use" if name else "end_turn"}
        value["content"] = [_tool_use(number, name, arguments) if name else {"type": "text", "text": text}]
    elif ask.form == "responses":
        item = _call_item(number, name, arguments) if name else _text_item(number, text)
        value = _response(model, number, "completed", [item], answer.read)
    else:
        value = _gemini(
            model,
            {"functionCall": {"name": name, "args": arguments}} if name else {"text": text},
            answer.read,
            "STOP",
        )
    return json.dumps(value).encode()


def _sse(value: Mapping[str, Any], *, named: bool = False) -> bytes:
    head = f"event: {value['type']}\n" if named else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def _chat_usage(read: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": 10, "total_tokens": read + 10}


def _chat(model: str, number: int, choices: list[Any], kind: str = "chat.completion.chunk") -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1, "model": model, "choices": choices}


def _chat_call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _chat_events(model: str, answer: Answer, number: int) -> Iterator[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _sse(_chat(model, number, [{"index": 0, "delta": delta, "finish_reason": finish}]))

    yield Event(chunk({"role": "assistant", "content": ""}))
    for piece in answer.pieces:
        yield Event(chunk({"content": piece}), True)
    if answer.call:
        yield Event(chunk({"tool_calls": [{"index": 0, **_chat_call(number, *answer.call)}]}))
    yield Event(chunk({}, "tool_calls" if answer.call else "stop"))
    yield Event(_sse(_chat(model, number, []) | {"usage": _chat_usage(answer.read)}) + b"data: [DONE]\n\n")


def _message(model: str, number: int, read: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": read, "output_tokens": 10},
    }


def _tool_use(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def _messages_events(model: str, answer: Answer, number: int) -> Iterator[Event]:
    def block(kind: str, **more: Any) -> bytes:
        return _sse({"type": f"content_block_{kind}", "index": 0, **more}, named=True)

    yield Event(_sse({"type": "message_start", "message": _message(model, number, answer.read)}, named=True))
    if answer.call:
        name, arguments = answer.call
        yield Event(block("start", content_block=_tool_use(number, name, {})))
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield Event(block("delta", delta=delta))
    else:
        yield Event(block("start", content_block={"type": "text", "text": ""}))
        for piece in answer.pieces:
            yield Event(block("delta", delta={"type": "text_delta", "text": piece}), True)
    yield Event(block("stop"))
    delta = {"stop_reason": "tool_use" if answer.call else "end_turn", "stop_sequence": None}
    usage = {"output_tokens": 10}
    yield Event(_sse({"type": "message_delta", "delta": delta, "usage": usage}, named=True))
    yield Event(_sse({"type": "message_stop"}, named=True))


def _response(model: str, number: int, status: str, output: list[Any], read: int) -> dict[str, Any]:
    usage = {
        "input_tokens": read,
        "output_tokens": 10,
        "total_tokens": read + 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": status,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if status == "completed" else None,
    }


def _text_item(number: int, text: str, status: str = "completed") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if status == "completed" else []
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _call_item(
    number: int, name: str, arguments: dict[str, Any], status: str = "completed"
) -> dict[str, Any]:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": json.dumps(arguments) if status == "completed" else "",
        "status": status,
    }


def _responses_events(model: str, answer: Answer, number: int) -> Iterator[Event]:
    sequence = iter(range(1_000_000))

    def event(kind: str, **more: Any) -> bytes:
        return _sse({"type": f"response.{kind}", "sequence_number": next(sequence), **more}, named=True)

    yield Event(event("created", response=_response(model, number, "in_progress", [], answer.read)))
    if answer.call:
        item, empty = (_call_item(number, *answer.call, status) for status in ("completed", "in_progress"))
        yield Event(event("output_item.added", output_index=0, item=empty))
        at = {"item_id": item["id"], "output_index": 0}
        yield Event(event("function_call_arguments.delta", **at, delta=item["arguments"]))
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield Event(event("function_call_arguments.done", **at, **done))
    else:
        text = "".join(answer.pieces)
        item, empty = (_text_item(number, text, status) for status in ("completed", "in_progress"))
        yield Event(event("output_item.added", output_index=0, item=empty))
        at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield Event(event("content_part.added", **at, part=part))
        for piece in answer.pieces:
            yield Event(event("output_text.delta", **at, delta=piece, logprobs=[]), True)
        yield Event(event("output_text.done", **at, text=text, logprobs=[]))
        yield Event(event("content_part.done", **at, part=item["content"][0]))
    yield Event(event("output_item.done", output_index=0, item=item))
    yield Event(event("completed", response=_response(model, number, "completed", [item], answer.read)))


def _gemini(model: str, part: dict[str, Any], read: int, finish: str | None = None) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
    usage = {"promptTokenCount": read, "candidatesTokenCount": 10, "totalTokenCount": read + 10}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": usage,
        "modelVersion": model,
    }


def _gemini_events(model: str, answer: Answer, _number: int) -> Iterator[Event]:
    for at, piece in enumerate(answer.pieces, start=1):
        last = at == len(answer.pieces)
        yield Event(_sse(_gemini(model, {"text": piece}, answer.read, "STOP" if last else None)), True)
    if answer.call:
        name, arguments = answer.call
        yield Event(
            _sse(_gemini(model, {"functionCall": {"name": name, "args": arguments}}, answer.read, "STOP"))
        )


EVENTS = {
    "chat": _chat_events,
    "messages": _messages_events,
    "responses": _responses_events,
    "gemini": _gemini_events,
}
