"""Fetching one complete reply, with retries, increasing delays and fallback models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol, TypeVar

from agent.core.event_data import Usage
from agent.core.messages import Message, Sealed, SealedPart, ToolCall
from agent.errors import ModelError
from agent.model.codecs import codec_for
from agent.model.codecs.codec import DecodedReply, Decoder
from agent.model.dialect_book import SpokenDialect
from agent.model.protocol import (
    AnsweredDelta,
    CallFragment,
    Delta,
    FinishReason,
    ModelClient,
    ModelRequest,
    ReasoningDelta,
    ReplyEnd,
    SealedDelta,
    TextDelta,
    TokensDelta,
    ToolSpec,
    UsageDelta,
)
from agent.model.server_watch import WatchedModel
from agent.model.transport.waits import RetryPolicy
from agent.model.wire_format import Wire

log = logging.getLogger(__name__)

LARGE = 32_000
"""The number of characters of a reply above which its decoding is finished off the event loop."""

LEAST_LIMIT = 16
"""The smallest output limit in tokens that every server accepts; smaller ones are not always sent."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """One model that can answer, and its wire form. `name` is its label as it is shown."""

    name: str
    model: str
    client: ModelClient
    wire: Wire
    tools: tuple[ToolSpec, ...] = ()
    searched: tuple[ToolSpec, ...] = ()
    """Tools that requests do not show, but that may be called."""
    images: bool = True
    """True if the model is sent images; otherwise a sentence tells it that there were some."""
    usual_output: int | None = None
    """The output limit if the request has none, for formats that require a limit."""
    watched: WatchedModel | None = None
    """The model with the watch of its server, if the server is queried for its models."""
    spoken: SpokenDialect = field(default_factory=SpokenDialect)
    """The dialect of the model, as far as it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A complete reply. `route` names its route; `broken` is as in `DecodedReply`."""

    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish: FinishReason
    usage: Usage
    route: str
    repairs: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    sealed: Sealed | None = None
    """Parts that the provider needs back byte for byte."""
    raw: Mapping[str, Any] | None = None
    """The `text`, `reasoning` and `calls` as they were received, if the reply differs from them."""
    answered: str = ""
    """The model that answered, if the server reports another one than requested; otherwise empty."""
    tokens: Mapping[str, Any] | None = None
    """Token ids and log probabilities (`prompt`, `output`, `logprobs`), if the server sent them."""


class ReplyListener(Protocol):
    """An object that receives the progress of a reply. All methods return quickly."""

    def start(self, route: ModelRoute, attempt: int) -> None:
        """Handle the start of a request; `attempt` counts from 1 on each route."""

    def show(self, delta: Delta) -> None:
        """Show a delta. It belongs to the reply only if no `discard` follows."""

    def discard(self, reason: str) -> None:
        """Discard everything that was shown since `start`."""

    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None:
        """Announce attempt `attempt` in `delay` seconds on `route`, which may be the next route."""


async def fetch_reply(
    routes: Sequence[ModelRoute],
    build: Callable[[ModelRoute], ModelRequest],
    listener: ReplyListener,
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    chance: Random | None = None,
) -> ModelReply:
    """Return the reply of the first route that gives one.

    A temporary failure is retried on its route from the start; nothing from a failed attempt gets into the
    reply. Then the next route is used. Raises the first route's last `ModelError` if all routes fail. An
    error of kind `overflow` (the conversation is too large) is raised at once.
    """
    if not routes:
        raise ValueError("no route to a model")
    chance = chance or Random()  # noqa: S311, RUF100 - jitter, no secret
    first_error: ModelError | None = None
    for position, route in enumerate(routes):
        attempt = 1
        while True:
            try:
                return await _attempt(route, build(route), listener, attempt)
            except ModelError as error:
                if error.kind == "overflow":
                    raise
                failure = error
            delay = policy.delay(attempt, failure, chance)
            if delay is None:
                break
            attempt += 1
            listener.retry(str(failure), delay, attempt, route)
            await sleep(delay)
        first_error = first_error or failure
        if position + 1 < len(routes):
            listener.retry(str(failure), 0.0, 1, routes[position + 1])
    assert first_error is not None
    raise first_error


ASIDE = 180.0
"""Seconds that a request outside the conversation may take, including retries."""


async def ask_aside(
    route: ModelRoute, system: str, messages: Sequence[Message], most: int, retries: int = 1
) -> ModelReply:
    """Send a model a request outside the conversation, without tools; return a reply of at most `most`
    tokens.

    Its progress is not shown. Raises `TimeoutError` after `ASIDE` seconds, and `ModelError`.
    """
    route = replace(route, wire=Wire(route.wire.format, codec_for("native")), tools=())
    framer = route.wire.framer()
    request = ModelRequest(
        model=route.model,
        system=route.wire.system(system, ()),
        frames=tuple(frame for message in messages for frame in framer.frames(message)),
        max_output=most,
        usual_output=route.usual_output,
    )
    async with asyncio.timeout(ASIDE):
        return await fetch_reply([route], lambda _: request, _Unheard(), RetryPolicy(retries=retries))


class _Unheard:
    """A listener that ignores the progress of a reply."""

    def start(self, route: ModelRoute, attempt: int) -> None: ...

    def show(self, delta: Delta) -> None: ...

    def discard(self, reason: str) -> None: ...

    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None: ...


async def _attempt(
    route: ModelRoute, request: ModelRequest, listener: ReplyListener, attempt: int
) -> ModelReply:
    """Return the reply to one request on one route. Raises `ModelError`, after discarding what was shown."""
    listener.start(route, attempt)
    reader = _ReplyReader(route, listener, request)
    try:
        async with _closing(route.client.stream(request)) as deltas:
            async for delta in deltas:
                if reader.take(delta):
                    break
        return await reader.reply()
    except ModelError as error:
        if reader.has_shown:
            listener.discard(str(error))
        raise


class _ReplyReader:
    """Collects the deltas of one attempt into a reply."""

    def __init__(self, route: ModelRoute, listener: ReplyListener, request: ModelRequest) -> None:
        self.has_shown = False
        self._written = 0
        self._digest = request.digest
        self._most = request.max_output or 0
        self._answered = ""
        self._sealed: list[SealedPart] = []
        self._text_length = 0
        self._calls: set[int] = set()
        self._route = route
        self._listener = listener
        self._decoder: Decoder = route.wire.decoder((*route.tools, *route.searched))
        self._usage = Usage()
        self._finish: FinishReason | None = None
        self._said: dict[str, list[str]] = {"text": [], "reasoning": []}
        self._fragments: list[list[Any]] = []
        self._tokens: dict[str, list[Any]] = {"prompt": [], "output": [], "logprobs": []}

    def take(self, delta: Delta) -> bool:
        """Read one delta; return whether it was the last one."""
        if isinstance(delta, UsageDelta):
            self._usage = self._usage.merge(delta.usage)
            return False
        if isinstance(delta, TokensDelta):
            for name in self._tokens:
                self._tokens[name] += getattr(delta, name)
            return False
        if isinstance(delta, AnsweredDelta):
            self._answered = delta.model
            return False
        if isinstance(delta, SealedDelta):
            self._sealed.append(
                SealedPart(delta.data, *(delta.place or (self._text_length, len(self._calls))))
            )
            return False
        if isinstance(delta, ReplyEnd):
            self._finish = delta.reason
        elif isinstance(delta, CallFragment):
            self._written += len(delta.arguments)
            self._calls.add(delta.index)
            self._keep(delta)
        elif isinstance(delta, TextDelta):
            self._written += len(delta.text)
            self._text_length += len(delta.text)
            self._said["text"].append(delta.text)
        elif isinstance(delta, ReasoningDelta):
            self._said["reasoning"].append(delta.text)
        self._show(_decode_safely(lambda: self._decoder.feed(delta)))
        return self._finish is not None

    async def reply(self) -> ModelReply:
        if self._finish is None:
            raise ModelError(
                "cut", f"The answer of {self._route.name} broke off before it was complete; try again."
            )
        if self._written > LARGE:
            # Repairing a large call can take a second; the event loop must not wait for it.
            held_back, decoded = await asyncio.to_thread(_decode_safely, self._decoder.finish)
        else:
            held_back, decoded = _decode_safely(self._decoder.finish)
        self._show(held_back)
        if self._finish == "content_filter" and not decoded.text.strip() and not decoded.calls:
            raise ModelError(
                "content_filter",
                f"{self._route.name} refuses to answer this; rephrase the request or choose another model.",
            )
        finish = "length" if self._is_cut() else self._finish
        reply = _reply(decoded, finish, self._usage, self._route.name, self._sealed_parts())
        tokens = self._tokens if self._tokens["prompt"] or self._tokens["output"] else None
        return replace(reply, raw=self._raw(reply), tokens=tokens, answered=self._answered)

    def _is_cut(self) -> bool:
        """Return whether the reply reached the output limit. Some servers report such a reply as complete."""
        whole = self._finish in ("stop", "tool_calls", "unknown")
        return whole and self._most >= LEAST_LIMIT and (self._usage.output or 0) >= self._most

    def _keep(self, piece: CallFragment) -> None:
        """Store a piece of a call; pieces that continue the last one are joined."""
        last = self._fragments[-1] if self._fragments else None
        if last is not None and last[0] == piece.index and not piece.id and not piece.name:
            last[3].append(piece.arguments)
        else:
            self._fragments.append([piece.index, piece.id, piece.name, [piece.arguments]])

    def _raw(self, reply: ModelReply) -> Mapping[str, Any] | None:
        text, reasoning = ("".join(self._said[name]) for name in ("text", "reasoning"))
        calls = [[index, id, name, "".join(map(str, said))] for index, id, name, said in self._fragments]
        made = [[at, call.id, call.name, call.arguments] for at, call in enumerate(reply.calls)]
        if (text, reasoning, calls) == (reply.text, reply.reasoning, made) and not reply.broken:
            return None
        return {"text": text, "reasoning": reasoning, "calls": calls}

    def _sealed_parts(self) -> Sealed | None:
        if not self._sealed:
            return None
        parts = sorted(self._sealed, key=lambda part: (part.text, part.calls))
        return Sealed(self._route.wire.format.name, self._digest, tuple(parts))

    def _show(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if not isinstance(delta, UsageDelta | AnsweredDelta | ReplyEnd):
                self.has_shown = True
                self._listener.show(delta)


def _decode_safely(read: Callable[[], T]) -> T:
    """Return the decoder's result.

    A failure of the decoder is raised as a `ModelError` of kind `bad_reply`, which can be retried.
    """
    try:
        return read()
    except ModelError:
        raise
    except Exception:  # noqa: BLE001, RUF100 - whatever a decoder raises is a bad reply
        log.exception("a reply could not be decoded")
        raise ModelError(
            "bad_reply", "The model's reply could not be read (the log has the details); try again."
        ) from None


def _reply(
    decoded: DecodedReply, finish: FinishReason, usage: Usage, route: str, sealed: Sealed | None
) -> ModelReply:
    return ModelReply(
        text=decoded.text,
        reasoning=decoded.reasoning,
        calls=decoded.calls,
        finish=finish,
        usage=usage,
        route=route,
        repairs=decoded.repairs,
        broken=decoded.broken,
        sealed=sealed,
    )


@asynccontextmanager
async def _closing(deltas: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """Yield the stream, and close it at the end of the context if it can be closed."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
