"""Questions of a server to a model: judged as `sampling(server)`, paid for by the session, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.core.messages import Message
from agent.errors import HermesError
from agent.integrations.mcp.host_process import RefusedError
from agent.model.codecs import codec_for
from agent.model.protocol import Delta, ModelRequest
from agent.model.transport.reply import ModelRoute, fetch_reply
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.model.wire_format import Wire
from agent.safety.gate import Gate
from tools.results import DeniedError
from tools.services.actions import SampleModel
from tools.text.safe_text import clean

MOST_TOKENS = 4_096
"""Tokens of an answer, whatever the server asks for."""
LONGEST = 200_000
"""Characters of a question."""
SECONDS = 180.0
_SHOWN = 1_000


class Sampling:
    """Asks one model of the session for servers."""

    def __init__(
        self, route: ModelRoute, meter: Meter, gate: Gate, may_ask: Callable[[], bool], retries: int = 1
    ) -> None:
        """`may_ask` tells whether a person is there, or a budget bounds what nobody looks at."""
        self._route = replace(route, wire=Wire(route.wire.format, codec_for("native")), tools=())
        self._meter = meter
        self._gate = gate
        self._may_ask = may_ask
        self._policy = RetryPolicy(retries=retries)

    async def ask(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model's answer to the messages of a server. Raises `RefusedError`."""
        messages = _messages(params.get("messages"))
        system = clean(str(params.get("systemPrompt") or ""))
        if sum(len(each.content) for each in messages) + len(system) > LONGEST:
            raise RefusedError(f"the question has more than {LONGEST:,} characters")
        if not self._may_ask():
            raise RefusedError("nobody is there and budget.session bounds nothing, so the model is not asked")
        shown = " ".join(messages[-1].content.split())[:_SHOWN]
        try:
            await self._gate.permit(SampleModel(tool="sampling", server=server, text=shown))
        except DeniedError as error:
            raise RefusedError(f"the user did not allow it: {clean(str(error))[:300]}") from error
        wanted = params.get("maxTokens")
        tokens = min(wanted, MOST_TOKENS) if isinstance(wanted, int) and wanted > 0 else MOST_TOKENS
        try:
            async with asyncio.timeout(SECONDS):
                reply = await fetch_reply(
                    [self._route],
                    lambda route: _request(route, system, messages, tokens),
                    _Unheard(),
                    self._policy,
                )
        except TimeoutError:
            raise RefusedError(f"the model gave no answer within {SECONDS:g} s") from None
        except HermesError as error:
            raise RefusedError(f"the model could not be asked: {clean(str(error))[:200]}") from error
        self._meter.add_aside(reply.usage, self._route.name)
        return {
            "role": "assistant",
            "content": {"type": "text", "text": reply.text},
            "model": self._route.name,
            "stopReason": "maxTokens" if reply.finish == "length" else "endTurn",
        }


def _messages(given: Any) -> list[Message]:
    """The messages of a question. Raises `RefusedError` for what is no text."""
    if not isinstance(given, Sequence) or not given:
        raise RefusedError("it asked nothing")
    found = []
    for each in given:
        parts = each.get("content") if isinstance(each, Mapping) else None
        listed = parts if isinstance(parts, list) else [parts]
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in listed]
        if any(not isinstance(text, str) for text in texts):
            raise RefusedError("only questions in text are passed on")
        text = "\n".join(clean(str(text)) for text in texts)
        found.append(Message("assistant" if each.get("role") == "assistant" else "user", text))
    return found


def _request(route: ModelRoute, system: str, messages: Sequence[Message], tokens: int) -> ModelRequest:
    framer = route.wire.framer()
    frames = [frame for message in messages for frame in framer.frames(message)]
    return ModelRequest(
        model=route.model,
        system=route.wire.system(system or "You answer a question of a tool server.", ()),
        frames=tuple(frames),
        max_output=tokens,
        usual_output=route.usual_output,
    )


class _Unheard:
    """A request that nobody watches."""

    def started(self, route: ModelRoute, attempt: int) -> None: ...

    def shown(self, delta: Delta) -> None: ...

    def cut(self, reason: str) -> None: ...

    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None: ...
