"""Asking the model for its next message: frames, room, retries, usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.attachments import AttachmentStore
from agent.context.history import Turned
from agent.context.ledger import Break, PrefixLedger
from agent.context.masking import plan_room
from agent.context.profile import Profile
from agent.context.table import ContextTable, Sent, build_table
from agent.errors import HermesError, ModelError
from agent.events import (
    CallDrafted,
    Event,
    Noticed,
    PrefixBroken,
    ReasoningAdded,
    ReplyCut,
    RequestStarted,
    RetryScheduled,
    TextAdded,
    UsageChanged,
)
from agent.messages import Image, Message
from agent.model.codecs.pictures import COUNTED, surplus, without_images
from agent.model.protocol import CallFragment, Delta, ReasoningDelta, Request, TextDelta
from agent.model.transport.reply import Reply, Route, fetch_reply
from agent.model.transport.retry import RetryPolicy
from agent.model.usage import Meter
from agent.session import LiveSession
from tools.text import printable

DRAFT_SECONDS = 1.0
"""How often a message that is being written is kept."""

BULK = 200
"""New messages from which on serialising them is moved off the event loop."""

MAX_ROOM_ROUNDS = 4
"""How often room is made for one request."""

ROOM_TARGET = 0.6
"""Share of the window a compaction aims at, so that the next one is far away."""


@dataclass(slots=True)
class _Lane:
    """The conversation in the wire form of one route."""

    ledger: PrefixLedger = field(default_factory=PrefixLedger)
    framed: int = 0
    """Messages of the session that are in the ledger."""
    tools: bytes = b""
    images: bool = True
    """Whether images are sent; a server that refused one is sent none any more."""
    surplus: int = 0
    """Bytes by which the images in the ledger are larger than what they count for."""

    @property
    def size(self) -> int:
        """What the next request counts as in estimates, in bytes."""
        return self.ledger.size + len(self.tools) - self.surplus


class Dialogue:
    """The model side of one session."""

    def __init__(
        self,
        session: LiveSession,
        routes: Sequence[Route],
        profile: Profile,
        meter: Meter,
        emit: Callable[[Event], None],
        *,
        attachments: AttachmentStore,
        after_compaction: Callable[[], Awaitable[None]],
        policy: RetryPolicy,
        mask_at: float,
        temperature: float | None = None,
        max_output: int | None = None,
    ) -> None:
        self._session = session
        self._routes = routes
        self._profile = profile
        self._meter = meter
        self._emit = emit
        self._attachments = attachments
        self._after_compaction = after_compaction
        self._policy = policy
        self._mask_at = mask_at
        self._temperature = temperature
        self._max_output = max_output
        self._lanes: dict[str, _Lane] = {}
        self._breaks: list[Break] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._cut: list[str] = []
        self._drafted: dict[int, list[Any]] = {}
        self._step = 0
        self._attempt = 0

    async def next_reply(self, step: int) -> Reply:
        """The model's next message. Raises `ModelError` when no route gives one."""
        self._step = step
        await self._frame(self._routes[0])
        await self._keep_room()
        for _ in range(MAX_ROOM_ROUNDS):
            try:
                return await self._fetch()
            except ModelError as error:
                if error.kind == "images" and await self._leave_images_out(error):
                    continue
                if error.kind != "overflow" or not await self._make_room(self._overflow_target()):
                    raise
        raise ModelError(
            "overflow", "The conversation does not fit the model's window; use a model with a larger one."
        )

    def take_partial(self) -> tuple[str, str]:
        """What the model has written of a message that never became complete; taken once."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        self._text.clear()
        self._reasoning.clear()
        return text, reasoning

    def usage(self) -> dict[str, int | float | None]:
        """Tokens and money of the whole session so far."""
        return self._meter.totals()

    def take_aside(self) -> list[dict[str, Any]]:
        """What side models have used since the last time, to be kept with the next message."""
        return self._meter.take_aside()

    async def context(self) -> ContextTable:
        """What fills the window now, and what was used. Counted off the event loop."""
        route = self._routes[0]
        sent = Sent(route.codec, route.tools, self._profile.examples)
        ratio, window, used = self._meter.ratio, self._meter.window, self._meter.totals()
        path, breaks = tuple(self._session.path), tuple(self._breaks)
        return await asyncio.to_thread(
            build_table, path, sent, model=route.name, window=window, ratio=ratio, used=used, breaks=breaks
        )

    async def _fetch(self) -> Reply:
        self._text.clear()
        self._reasoning.clear()
        drafts = asyncio.create_task(self._keep_drafts())
        try:
            reply = await fetch_reply(self._routes, self._build, self, self._policy)
        finally:
            drafts.cancel()
            await asyncio.gather(drafts, return_exceptions=True)
            await self._keep_cut_pieces()
        self._text.clear()
        self._reasoning.clear()
        self._account(reply)
        return reply

    # What `fetch_reply` tells while it works.

    def started(self, route: Route, attempt: int) -> None:
        self._attempt = attempt
        self._drafted.clear()
        self._emit(RequestStarted(model=route.name, step=self._step, attempt=attempt))

    def shown(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
            self._emit(TextAdded(text=printable(delta.text)))
        elif isinstance(delta, ReasoningDelta):
            self._reasoning.append(delta.text)
            self._emit(ReasoningAdded(text=printable(delta.text)))
        elif isinstance(delta, CallFragment):
            draft = self._drafted.setdefault(delta.index, ["", 0])
            draft[0] = draft[0] or delta.name
            draft[1] += len(delta.arguments)
            self._emit(CallDrafted(index=delta.index, name=printable(draft[0]), chars=draft[1]))

    def cut(self, reason: str) -> None:
        text, _ = self.take_partial()
        if text.strip():
            self._cut.append(text)
        self._emit(ReplyCut(reason=reason))

    def retry(self, reason: str, delay: float, attempt: int, route: Route) -> None:
        self._emit(RetryScheduled(reason=reason, delay=delay, attempt=attempt, model=route.name))

    # Frames

    def _build(self, route: Route) -> Request:
        lane = self._lane(route)
        messages = self._session.messages()
        fresh = messages[lane.framed :]
        if fresh:
            lane.ledger.extend(self._frames(route, lane, fresh))
            lane.framed = len(messages)
        frames, broken = lane.ledger.send(lane.tools)
        if broken is not None:
            self._breaks.append(broken)
            self._emit(PrefixBroken(reason=broken.reason, declared=broken.declared))
        return Request(
            model=route.model,
            messages=frames,
            tools=lane.tools,
            max_output=self._max_output,
            temperature=self._temperature,
            extra=route.codec.extra(route.tools),
        )

    def _lane(self, route: Route) -> _Lane:
        lane = self._lanes.get(route.name)
        if lane is None:
            lane = self._lanes[route.name] = _Lane(tools=route.codec.tools(route.tools), images=route.images)
            lane.ledger.extend(self._opening(route))
        return lane

    def _opening(self, route: Route) -> list[bytes]:
        """System prompt and worked examples."""
        node = self._session.system()
        prompt = route.codec.system(node.content if node is not None else "", route.tools)
        opening = [Message("system", prompt), *self._profile.examples]
        return [route.codec.message(message) for message in opening]

    async def _frame(self, route: Route) -> None:
        """Serialise a large backlog (a resumed session) and images off the event loop."""
        lane = self._lane(route)
        fresh = self._session.messages()[lane.framed :]
        if len(fresh) > BULK or any(turned.message.images for turned in fresh):
            frames = await asyncio.to_thread(self._frames, route, lane, list(fresh))
            lane.ledger.extend(frames)
            lane.framed += len(fresh)

    def _frames(self, route: Route, lane: _Lane, messages: Sequence[Turned]) -> list[bytes]:
        """Messages in wire form. Reads the files of their images."""
        frames = []
        for turned in messages:
            message = self._loaded(turned.message) if lane.images else without_images(turned.message)
            lane.surplus += surplus(message)
            frames.append(route.codec.message(message))
        return frames

    def _loaded(self, message: Message) -> Message:
        images = (Image(each.attachment, self._attachments.read(each.attachment)) for each in message.images)
        return replace(message, images=tuple(images)) if message.images else message

    async def _reframe(self, route: Route, reason: str) -> None:
        """Serialise the whole conversation again: a declared break of the prefix, named by `reason`."""
        lane = self._lane(route)
        messages = list(self._session.messages())
        lane.surplus = 0
        frames = await asyncio.to_thread(self._frames, route, lane, messages)
        lane.ledger.rewrite([*self._opening(route), *frames], reason)
        lane.framed = len(messages)

    async def begin_again(self, reason: str) -> None:
        """The conversation became another one: a declared break of the prefix on every route."""
        self.take_partial()
        names = {route.name: route for route in self._routes}
        for name in list(self._lanes):
            await self._reframe(names[name], reason)

    async def _leave_images_out(self, error: ModelError) -> bool:
        """The server does not take an image: go on without any. False when none was sent."""
        lane = self._lane(self._routes[0])
        if not lane.images or not any(turned.message.images for turned in self._session.messages()):
            return False
        lane.images = False
        self._emit(Noticed(kind="warning", text=f"{error} From here on the model is not sent images."))
        await self._reframe(self._routes[0], "images are no longer sent")
        return True

    # Room

    async def _keep_room(self) -> None:
        """Compact before the window is full, if its size is known."""
        window = self._meter.window
        if window is None:
            return
        for _ in range(MAX_ROOM_ROUNDS):
            tokens = self._estimate()
            if tokens <= self._mask_at * window:
                return
            if not await self._make_room(tokens - int(ROOM_TARGET * window)):
                return

    def _estimate(self) -> int:
        """Tokens of the next request on the first route, as far as known."""
        lane = self._lane(self._routes[0])
        messages = self._session.messages()[lane.framed :]
        unframed = sum(
            len(turned.message.content) + COUNTED * len(turned.message.images) for turned in messages
        )
        return self._meter.estimate(lane.size + unframed)

    def _overflow_target(self) -> int:
        """Tokens to save after the provider said that a request was too large."""
        window = self._meter.window
        tokens = self._estimate()
        return max(tokens - int(ROOM_TARGET * window) if window else 0, int(tokens * (1 - ROOM_TARGET)))

    async def _make_room(self, tokens: int) -> bool:
        plan = plan_room(self._session.path, self._meter.characters(tokens))
        if plan is None or plan.saved < self._meter.characters(tokens) // 20:
            return False
        await self._session.add_compaction(plan)
        await self._after_compaction()
        for route in self._routes:
            if route.name in self._lanes:
                await self._reframe(route, plan.sentence())
        return True

    # Keeping

    async def _keep_drafts(self) -> None:
        kept = 0
        while True:
            await asyncio.sleep(DRAFT_SECONDS)
            pieces = len(self._text) + len(self._reasoning)
            if pieces != kept:
                kept = pieces
                try:
                    await self._session.save_draft("".join(self._text), "".join(self._reasoning))
                except HermesError as error:
                    self._emit(Noticed(kind="store", text=str(error)))

    async def _keep_cut_pieces(self) -> None:
        pieces, self._cut = self._cut, []
        for text in pieces:
            await self._session.add("notice", text, {"kind": "cut", "to_model": False})

    def _account(self, reply: Reply) -> None:
        lane = self._lane(next(route for route in self._routes if route.name == reply.route))
        self._meter.add(reply.usage, lane.size, reply.route)
        totals = self._meter.totals()
        self._emit(
            UsageChanged(
                request=reply.usage,
                session_input=int(totals["input"] or 0),
                session_output=int(totals["output"] or 0),
                session_cached=int(totals["cached"] or 0),
                session_cost=totals["cost"],
                context_used=self._estimate(),
                context_window=self._meter.window,
            )
        )
