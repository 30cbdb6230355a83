"""Talking to the scripted server through the real client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agent.core.event_data import Usage
from agent.errors import ModelError
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import (
    CallFragment,
    Delta,
    FinishReason,
    Frame,
    ModelRequest,
    ReasoningDelta,
    ReplyEnd,
    TextDelta,
    UsageDelta,
)
from agent.model.transport.client import FormatClient
from tests.support.model_server import ModelServer, Rules, calls

ASK = ModelRequest(model="m", frames=(Frame(b'{"role":"user","content":"hi"}'),))
RICH = calls(
    ("terminal", {"command": "ls -la ü🎉 and a longer line"}),
    ("read_file", {"path": "/etc/hosts"}),
    text="Here is 🎉 some text — in more than one piece of the stream.",
    reasoning="Let me think about that for a moment.",
)
RULES = Rules()
KEY = "sk-live-0123456789abcdef"


@dataclass(frozen=True)
class Seen:
    """What deltas add up to."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str, str], ...]
    finish: FinishReason
    usage: Usage | None


def add_up(deltas: list[Delta]) -> Seen:
    parts: dict[int, list[str]] = {}
    for delta in deltas:
        if isinstance(delta, CallFragment):
            part = parts.setdefault(delta.index, ["", "", ""])
            for place, piece in enumerate((delta.id, delta.name, delta.arguments)):
                part[place] += piece
    ends = [delta for delta in deltas if isinstance(delta, ReplyEnd)]
    assert ends == deltas[-1:]
    counts = [delta.usage for delta in deltas if isinstance(delta, UsageDelta)]
    return Seen(
        "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
        "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)),
        tuple((part[0], part[1], part[2]) for part in parts.values()),
        ends[0].reason,
        counts[-1] if counts else None,
    )


async def read(client: FormatClient, request: ModelRequest = ASK) -> Seen:
    return add_up([delta async for delta in client.stream(request)])


@asynccontextmanager
async def talking(
    script: Any = (), *, key: str | None = None, stall: float = 30, rules: Rules = RULES, **more: Any
):
    async with ModelServer(script, rules=rules) as server:
        client = FormatClient(CHAT, server.base_url, key, stall_timeout=stall, **more)
        try:
            yield server, client
        finally:
            await client.aclose()


async def failure(client: FormatClient, request: ModelRequest = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await read(client, request)
    return caught.value
