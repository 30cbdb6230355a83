"""Asking a model for a summary: a request of its own, without tools and outside of the conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent.core.messages import Message
from agent.errors import HermesError
from agent.knowledge.context.compaction import SYSTEM, UnusableSummaryError
from agent.model.codecs import codec_for
from agent.model.protocol import Delta, ModelRequest
from agent.model.transport.reply import ModelReply, ModelRoute, fetch_reply
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.model.wire_format import Wire
from tools.text.safe_text import clean

SECONDS = 180.0
"""How long a summary may take, retries and all."""


class Summarizer:
    """Asks one model; what it uses is counted as of the session."""

    def __init__(self, route: ModelRoute, meter: Meter, retries: int = 1) -> None:
        mode = Wire(route.wire.format, codec_for("native"))
        self._route = replace(route, wire=mode, tools=())
        self._meter = meter
        self._policy = RetryPolicy(retries=retries)

    async def ask(self, prompt: str, tokens: int) -> str:
        """The answer, of at most about `tokens`. Raises `UnusableSummaryError` when there is none."""
        try:
            async with asyncio.timeout(SECONDS):
                reply = await fetch_reply(
                    [self._route], lambda route: _request(route, prompt, tokens), _Unheard(), self._policy
                )
        except TimeoutError:
            raise UnusableSummaryError(f"the model gave none within {SECONDS:g} s") from None
        except HermesError as error:
            raise UnusableSummaryError(f"the model could not be asked: {clean(str(error))[:200]}") from None
        self._count(reply)
        if reply.finish in ("length", "content_filter"):
            raise UnusableSummaryError("the model did not finish it")
        return reply.text

    def _count(self, reply: ModelReply) -> None:
        self._meter.add_aside(reply.usage, self._route.name)


def _request(route: ModelRoute, prompt: str, tokens: int) -> ModelRequest:
    # Models that think first need room for it too.
    return ModelRequest(
        model=route.model,
        system=route.wire.system(SYSTEM, ()),
        frames=tuple(route.wire.framer().frames(Message("user", prompt))),
        max_output=2 * tokens,
        usual_output=route.usual_output,
    )


class _Unheard:
    """A request that nobody watches."""

    def started(self, route: ModelRoute, attempt: int) -> None: ...

    def shown(self, delta: Delta) -> None: ...

    def cut(self, reason: str) -> None: ...

    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None: ...
