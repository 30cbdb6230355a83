"""The order of roles for models with a strict template, applied when a request body is built.

Frames are not changed. Joined messages depend only on frames, so that a request stays the beginning of the
next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from agent.model.dialect import RoleRules
from agent.model.protocol import Frame
from agent.model.wire_format import compact

GOES_ON = b'{"role":"user","content":"(The conversation goes on.)"}'
SEEN = b'{"role":"assistant","content":"(I have seen the results.)"}'
"""A short answer that is inserted between results and a user message."""

CALLS_ONLY = "(calls only)"
"""The text of a message that consists of calls, for models that accept neither null nor an empty text."""

_USER = b'{"role":"user","content":'


def in_order(system: bytes, frames: Sequence[Frame], rules: RoleRules) -> list[bytes]:
    """Return the messages of a request body in the order that `rules` require."""
    if rules.single_calls:
        frames = list(_one_by_one(frames))
    messages: list[bytes] = []
    role = ""
    opening = b"" if rules.system or not system else compact(json.loads(system)["content"])
    if rules.system and system:
        messages.append(system)
    for frame in frames:
        data = frame.data
        if not role and frame.role in ("assistant", "tool") and (rules.alternate or opening):
            messages.append(_joined_users(_USER + opening + b"}", GOES_ON) if opening else GOES_ON)
            opening, role = b"", "user"
        if opening and frame.role == "user":
            data, opening = _joined_users(_USER + opening + b"}", data), b""
        if role == "tool" and frame.role == "user" and rules.close_results:
            messages.append(SEEN)
            role = "assistant"
        if rules.alternate and frame.role == role == "user":
            messages[-1] = _joined_users(messages[-1], data)
        elif rules.alternate and frame.role == role == "assistant":
            messages[-1] = _joined_answers(messages[-1], data)
        else:
            messages.append(data)
        role = frame.role
    if opening:
        messages.append(_USER + opening + b"}")
    elif rules.alternate and role == "assistant":
        messages.append(GOES_ON)
    return messages


def _one_by_one(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Yield the frames, with each call in a message of its own, followed by its result."""
    at = 0
    while at < len(frames):
        frame, at = frames[at], at + 1
        message: dict[str, Any] = json.loads(frame.data) if frame.role == "assistant" else {}
        calls = message.get("tool_calls") or ()
        if len(calls) < 2:
            yield frame
            continue
        results: dict[str, Frame] = {}
        while at < len(frames) and frames[at].role == "tool":
            results[json.loads(frames[at].data)["tool_call_id"]] = frames[at]
            at += 1
        for call in calls:
            yield replace(frame, data=compact({**message, "tool_calls": [call]}))
            if (result := results.get(call["id"])) is not None:
                yield result
            if message.get("content"):
                message["content"] = CALLS_ONLY


def _joined_users(first: bytes, second: bytes) -> bytes:
    """Return two user messages as one, without parsing the bytes of their images."""
    one, other = first[len(_USER) : -1], second[len(_USER) : -1]
    if one[:1] == other[:1] == b'"':
        return _USER + one[:-1] + rb"\n\n" + other[1:] + b"}"
    return _USER + b"[" + _parts(one) + b"," + _parts(other) + b"]}"


def _parts(content: bytes) -> bytes:
    return content[1:-1] if content[:1] == b"[" else b'{"type":"text","text":' + content + b"}"


def _joined_answers(first: bytes, second: bytes) -> bytes:
    """Return two messages of the model as one, with the calls of both."""
    one: dict[str, Any] = json.loads(first)
    other: dict[str, Any] = json.loads(second)
    texts = [text for text in (one.get("content"), other.get("content")) if text]
    calls = [*one.get("tool_calls", ()), *other.get("tool_calls", ())]
    made = {**one, **other, "content": "\n\n".join(texts) if texts else one.get("content")}
    return compact({**made, **({"tool_calls": calls} if calls else {})})
