"""Records of requests, with which a replay rebuilds each request and finds the part that differs.

A record is stored with the answer, in the data of its node. It holds digests, never text: the parts of a
request are already in the session.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.messages import ToolCall
from agent.model.protocol import Frame, ModelRequest
from agent.model.transport.reply import ModelReply, ModelRoute

SHORT = 12
"""The number of hexadecimal digits in the digest of a part; that of a whole body is not shortened."""
INLINE = 256_000
"""The most bytes that are hashed on the event loop; more are hashed in a thread."""
MOST_FRAMES = 200
"""The maximum number of frames of one request whose digests are recorded, the newest ones."""


def short_digest(data: bytes) -> str:
    """Return a short digest that distinguishes parts of a request."""
    return hashlib.sha256(data).hexdigest()[:SHORT]


def schema_digest(schema: Mapping[str, Any] | None) -> str:
    """Return the digest of a JSON schema; empty without a schema."""
    return "" if schema is None else short_digest(json.dumps(schema, sort_keys=True).encode())


def answer_digests(text: str, reasoning: str, calls: Sequence[ToolCall]) -> dict[str, str]:
    """Return digests of an answer's parts, with which a replay detects that it was changed."""
    said = json.dumps([[call.id, call.name, call.arguments] for call in calls])
    parts = {"text": text, "reasoning": reasoning, "calls": said}
    return {name: short_digest(part.encode("utf-8", "surrogatepass")) for name, part in parts.items()}


def settings_of(request: ModelRequest) -> dict[str, Any]:
    """Return the fields of a request other than conversation, prompt and tools."""
    return {
        "temperature": request.temperature,
        "max_output": request.max_output,
        "thinking": request.thinking,
        "schema": schema_digest(request.reply_schema),
        "extra": dict(request.extra),
    }


@dataclass(slots=True)
class SentBodies:
    """The body that a client sent for the last request."""

    request: ModelRequest | None = None
    body: bytes = b""
    dialect: Mapping[str, Any] = field(default_factory=dict)

    def record(self, request: ModelRequest, body: bytes, dialect: Mapping[str, Any]) -> None:
        self.request, self.body, self.dialect = request, body, dialect

    def forget(self) -> None:
        self.request, self.body, self.dialect = None, b"", {}


class RequestRecorder:
    """Creates the request records of one conversation."""

    def __init__(self) -> None:
        self.sent = SentBodies()
        self._built: ModelRequest | None = None
        self._known: dict[str, tuple[Frame, ...]] = {}

    def begin(self, request: ModelRequest) -> None:
        """Prepare for a request that is about to be sent."""
        self.sent.forget()
        self._built = request

    async def record(self, route: ModelRoute, reply: ModelReply, *, images: bool) -> dict[str, Any]:
        """Return the record of the request that was just answered; empty if none was prepared."""
        built, sent = self._built, self.sent
        if built is None:
            return {}
        known, frames = self._known.get(route.name, ()), built.frames
        kept = _common(known, frames)
        kept = max(kept, len(frames) - MOST_FRAMES)
        self._known[route.name] = frames
        size = len(sent.body) + sum(map(len, frames[kept:]))
        if size <= INLINE:
            body, digests = _digests(sent.body, frames[kept:])
        else:
            body, digests = await asyncio.to_thread(_digests, sent.body, frames[kept:])
        record: dict[str, Any] = {
            "format": route.wire.format.name,
            "mode": route.wire.mode.mode,
            "model": built.model,
            "images": images,
            "usual_output": built.usual_output,
            "system": short_digest(built.system),
            "tools": short_digest(built.tools),
            "settings": settings_of(built),
            "count": len(frames),
            "from": kept,
            "frames": digests,
            "answer": answer_digests(reply.text, reply.reasoning, reply.calls),
        }
        if sent.request is not None:
            record["sent"] = {
                "sha256": body,
                "bytes": len(sent.body),
                "max_output": sent.request.max_output,
                "marks": list(sent.request.marks),
                "dialect": json.loads(json.dumps(sent.dialect)),
            }
        sent.forget()
        self._built = None
        return record


def _common(known: Sequence[Frame], frames: Sequence[Frame]) -> int:
    """Return the number of frames at the beginning of both sequences that are the same objects."""
    count = 0
    for one, other in zip(known, frames, strict=False):
        if one is not other:
            break
        count += 1
    return count


def _digests(body: bytes, frames: Sequence[Frame]) -> tuple[str, list[str]]:
    return hashlib.sha256(body).hexdigest(), [short_digest(frame.data) for frame in frames]
