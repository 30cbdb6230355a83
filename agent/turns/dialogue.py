"""Asking the model for its next message: frames, room, retries, usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent.attachments import AttachmentStore
from agent.context.context_table import ContextTable, Sent, build_table
from agent.context.message_history import MessageHistory, conversation
from agent.context.prefix_ledger import Break, PrefixLedger
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
from agent.model.codecs import codec_for
from agent.model.codecs.pictures import COUNTED, surplus, without_images
from agent.model.profile import Profile
from agent.model.protocol import (
    THOUGHT,
    CallFragment,
    Delta,
    Frame,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    Thinking,
)
from agent.model.transport.reply import ModelReply, ModelRoute, fetch_reply
from agent.model.transport.retry import RetryPolicy
from agent.model.usage import Meter
from agent.model.wire import Wire
from agent.model.wire_format import Framer
from agent.sessions.live_session import LiveSession
from agent.store.nodes import Node
from agent.turns.request_record import RequestRecorder
from agent.turns.room import ContextRoom, Remember
from agent.turns.server_news import ServerNews
from agent.turns.summarizing import Summarizer
from agent.turns.turn_helpers import TurnHelpers
from tools.safe_text import printable

DRAFT_SECONDS = 1.0
"""How often a message that is being written is kept."""

BULK = 200
"""New messages from which on serialising them is moved off the event loop."""

MAX_OVERFLOWS = 2
"""How often room is made for one request that the provider refused as too large."""

KEEPING = "Keeping what the model was writing"
RECORD = "The record of a request"
"""What helps, as notices name it."""

THINKING_CHANGED = "thinking was switched for this turn"


@dataclass(slots=True, kw_only=True)
class _Lane:
    """The conversation in the wire form of one route."""

    system: bytes
    tools: bytes
    framer: Framer
    ledger: PrefixLedger = field(default_factory=PrefixLedger)
    framed: int = 0
    """Messages of the session that are in the ledger."""
    images: bool = True
    """Whether images are sent; a server that refused one is sent none any more."""
    surplus: int = 0
    """Bytes by which the images in the ledger are larger than what they count for."""

    @property
    def size(self) -> int:
        """What the next request counts as in estimates, in bytes."""
        return self.ledger.size + len(self.head) - self.surplus

    @property
    def head(self) -> bytes:
        """What precedes the conversation."""
        return self.tools + self.system


class Dialogue:
    """The model side of one session."""

    def __init__(
        self,
        session: LiveSession,
        routes: Sequence[ModelRoute],
        profile: Profile,
        meter: Meter,
        emit: Callable[[Event], None],
        *,
        attachments: AttachmentStore,
        after_compaction: Callable[[], Awaitable[None]],
        policy: RetryPolicy,
        mask_at: float,
        words_share: float = 0.3,
        summary_route: ModelRoute | None = None,
        remember: Remember | None = None,
        temperature: float | None = None,
        max_output: int | None = None,
        thinking: Callable[[], Thinking | None] = lambda: None,
        extra: Mapping[str, Any] | None = None,
        helpers: TurnHelpers | None = None,
    ) -> None:
        helpers = self._helpers = helpers or TurnHelpers(emit)

        async def kept(notes: Sequence[tuple[str, str]]) -> int:
            return 0 if remember is None else await helpers.ask("Keeping notes", partial(remember, notes), 0)

        self._session = session
        self._routes = routes
        self._profile = profile
        self._meter = meter
        self._emit = emit
        self._attachments = attachments
        self._after_compaction = after_compaction
        self._policy = policy
        self._temperature = temperature
        self._max_output = max_output
        self._thinking = thinking
        self._extra = dict(extra or {})
        self._lanes: dict[str, _Lane] = {}
        self._breaks: list[Break] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._cut: list[str] = []
        self._drafted: dict[int, list[Any]] = {}
        self._step = 0
        self._attempt = 0
        self._asked = ""
        """Label of the model that was asked last."""
        self._recorder = RequestRecorder()
        self._record: dict[str, Any] = {}
        self._servers = ServerNews(meter, emit)
        self._room = ContextRoom(
            session,
            meter,
            Summarizer(summary_route or routes[0], meter),
            emit,
            measure=self._measure,
            made=self._made_room,
            threshold=mask_at,
            words=words_share,
            remember=None if remember is None else kept,
        )

    async def next_reply(self, step: int) -> ModelReply:
        """The model's next message. Raises `ModelError` when no route gives one."""
        self._step = step
        if step == 1:
            await self._helpers.ask("Asking a model server", self._hear_of_servers, None)
        await self._frame(self._routes[0])
        room = partial(self._room.keep, self._estimate())
        await self._helpers.ask("Making room in the window", room, None, through=HermesError)
        overflows = 0
        while True:
            try:
                reply = await self._fetch()
                if await self._saw_tools(reply):
                    return reply
            except ModelError as error:
                if error.kind == "images" and await self._leave_images_out(error):
                    continue
                overflows += error.kind == "overflow"
                if error.kind != "overflow" or overflows > MAX_OVERFLOWS:
                    raise
                if error.limit is not None:
                    self._meter.learn_window(error.limit)
                if not await self._room.after_overflow(self._estimate(), overflows):
                    raise

    def tune(
        self,
        temperature: float | None,
        max_output: int | None,
        thinking: Thinking | None,
        extra: Mapping[str, Any],
    ) -> None:
        """Ask so from the next request on."""
        self._temperature, self._max_output, self._thinking = temperature, max_output, lambda: thinking
        self._extra = dict(extra)

    def take_partial(self) -> tuple[str, str, str]:
        """What was written of a message that never became complete: text, reasoning, and the label of the
        model that wrote it; taken once."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        self._text.clear()
        self._reasoning.clear()
        return text, reasoning, self._asked

    def usage(self) -> dict[str, int | float | None]:
        """Tokens and money of the whole session so far."""
        return self._meter.totals()

    def take_aside(self) -> list[dict[str, Any]]:
        """What side models have used since the last time, to be kept with the next message."""
        return self._meter.take_aside()

    def take_record(self) -> dict[str, Any]:
        """The record of the last request that was answered, to be kept with the answer; taken once."""
        record, self._record = self._record, {}
        return record

    async def context(self) -> ContextTable:
        """What fills the window now, and what was used. Counted off the event loop."""
        route = self._routes[0]
        sent = Sent(route.wire, route.tools, self._profile.examples)
        ratio, used = self._meter.ratio, self._meter.totals()
        window, told = self._meter.window, self._meter.window_told
        path, breaks = tuple(self._session.path), tuple(self._breaks)
        table = partial(build_table, model=route.name, window=window, window_told=told, ratio=ratio)
        return await asyncio.to_thread(table, path, sent, used=used, breaks=breaks)

    async def _fetch(self) -> ModelReply:
        self._text.clear()
        self._reasoning.clear()
        drafts = asyncio.create_task(self._keep_drafts())
        try:
            reply = await fetch_reply(self._routes, self._build, self, self._policy)
        finally:
            drafts.cancel()
            await asyncio.gather(drafts, return_exceptions=True)
            await self._helpers.ask(KEEPING, self._keep_cut_pieces, None)
        self._text.clear()
        self._reasoning.clear()
        route = next(route for route in self._routes if route.name == reply.route)
        await self._helpers.ask("Asking a model server", self._hear_of_servers, None)
        self._helpers.hear("Counting what was used", lambda: self._account(reply, route), None)
        self._record = await self._helpers.ask(
            RECORD, lambda: self._recorder.record(route, reply, images=self._lane(route).images), {}
        )
        return reply

    # What `fetch_reply` tells while it works.

    def started(self, route: ModelRoute, attempt: int) -> None:
        self._attempt = attempt
        self._asked = route.name
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
        text = self.take_partial()[0]
        if text.strip():
            self._cut.append(text)
        self._emit(ReplyCut(reason=reason))

    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None:
        if route.watched is not None:
            route.watched.doubt()
        self._emit(RetryScheduled(reason=reason, delay=delay, attempt=attempt, model=route.name))

    # Frames

    def _build(self, route: ModelRoute) -> ModelRequest:
        lane = self._lane(route)
        messages = self._session.messages()
        fresh = messages[lane.framed :]
        if fresh:
            lane.ledger.extend(self._frames(lane.framer, lane, fresh))
            lane.framed = len(messages)
        wanted = self._thinking()
        thinks = lane.framer.may_think(wanted)
        sending = lane.ledger.send(
            lane.head,
            without="" if thinks else THOUGHT,
            reason=THINKING_CHANGED,
            marked=route.wire.format.marks_cache,
        )
        if (broken := sending.broken) is not None:
            self._breaks.append(broken)
            self._emit(PrefixBroken(reason=broken.reason, declared=broken.declared))
        request = ModelRequest(
            model=route.model,
            frames=sending.frames,
            system=lane.system,
            tools=lane.tools,
            marks=sending.marks,
            max_output=self._max_output,
            usual_output=route.usual_output,
            temperature=self._temperature,
            thinking=wanted if thinks else "off",
            reply_schema=route.wire.reply_schema(route.tools),
            digest=lane.framer.digest if thinks else "",
            extra=self._extra,
            told=self._recorder.sent.told,
        )
        self._helpers.hear(RECORD, lambda: self._recorder.begin(request), None)
        return request

    def _lane(self, route: ModelRoute) -> _Lane:
        lane = self._lanes.get(route.name)
        if lane is None:
            lane = self._lanes[route.name] = self._new_lane(route)
            lane.ledger.extend(self._examples(lane.framer))
        return lane

    def _new_lane(self, route: ModelRoute) -> _Lane:
        node = self._session.system()
        system = route.wire.system(node.content if node is not None else "", route.tools)
        tools = route.wire.tools(route.tools)
        framer = route.wire.framer(route.name, tools + system)
        return _Lane(system=system, tools=tools, framer=framer, images=route.images)

    def _examples(self, framer: Framer) -> list[Frame]:
        """Worked examples, which precede the conversation."""
        return [frame for message in self._profile.examples for frame in framer.frames(message)]

    async def _frame(self, route: ModelRoute) -> None:
        """Serialise a large backlog (a resumed session) and images off the event loop."""
        lane = self._lane(route)
        fresh = self._session.messages()[lane.framed :]
        if len(fresh) > BULK or any(turned.message.images for turned in fresh):
            frames = await asyncio.to_thread(self._frames, lane.framer, lane, list(fresh))
            lane.ledger.extend(frames)
            lane.framed += len(fresh)

    def _frames(self, framer: Framer, lane: _Lane, messages: Sequence[MessageHistory]) -> list[Frame]:
        """Messages in wire form. Reads the files of their images."""
        frames: list[Frame] = []
        for turned in messages:
            message = self._loaded(turned.message) if lane.images else without_images(turned.message)
            lane.surplus += surplus(message)
            frames += framer.frames(message)
        return frames

    def _loaded(self, message: Message) -> Message:
        images = (Image(each.attachment, self._attachments.read(each.attachment)) for each in message.images)
        return replace(message, images=tuple(images)) if message.images else message

    async def _reframe(self, route: ModelRoute, reason: str) -> None:
        """Serialise the whole conversation again: a declared break of the prefix, named by `reason`."""
        lane, fresh = self._lane(route), self._new_lane(route)
        messages = list(self._session.messages())
        lane.surplus = 0
        frames = self._examples(fresh.framer)
        frames += await asyncio.to_thread(self._frames, fresh.framer, lane, messages)
        lane.system, lane.tools, lane.framer = fresh.system, fresh.tools, fresh.framer
        lane.ledger.rewrite(frames, reason)
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

    # Servers of one's own

    async def _hear_of_servers(self) -> None:
        for route, reason in await self._servers.renew(tuple(self._routes)):
            await self._write_calls_as_text(route, reason)

    async def _saw_tools(self, reply: ModelReply) -> bool:
        """Whether the model was shown its tools, as far as its count tells; if not, it is asked again."""
        route = next(each for each in self._routes if each.name == reply.route)
        lane = self._lane(route)
        reason = self._servers.unseen(route, reply, lane.size) if lane.tools else ""
        if reason:
            await self._write_calls_as_text(route, reason)
        return not reason

    async def _write_calls_as_text(self, route: ModelRoute, reason: str) -> None:
        if route.wire.mode.mode != "native":
            return
        changed = replace(route, wire=Wire(route.wire.format, codec_for("text")), images=False)
        self._routes = tuple(changed if each is route else each for each in self._routes)
        self._emit(Noticed(kind="warning", text=f"Calls travel as text from here on: {reason}."))
        if route.name in self._lanes:
            self._lanes[route.name].images = False
            await self._reframe(changed, "calls travel as text")

    # ContextRoom

    async def compact(self, focus: str) -> str:
        """Fold what can be folded, as the person asked; a sentence about it. Raises `HermesError`."""
        await self._frame(self._routes[0])
        return await self._room.compact(focus, self._estimate())

    def _estimate(self) -> int:
        """Tokens of the next request on the first route, as far as known."""
        lane = self._lane(self._routes[0])
        messages = self._session.messages()[lane.framed :]
        unframed = sum(
            len(turned.message.content) + COUNTED * len(turned.message.images) for turned in messages
        )
        return self._meter.estimate(lane.size + unframed)

    def _measure(self, path: Sequence[Node]) -> int:
        """Tokens of the request that a path would make on the first route. Any thread may ask."""
        route = self._routes[0]
        fresh = self._new_lane(route)
        size = len(fresh.head) + sum(map(len, self._examples(fresh.framer)))
        for turned in conversation(path):
            size += COUNTED * len(turned.message.images)
            size += sum(map(len, fresh.framer.frames(without_images(turned.message))))
        return self._meter.estimate(size)

    async def _made_room(self, sentence: str) -> None:
        """A compaction is in the store: the conversation is another one on every route."""
        await self._helpers.ask("Following a compaction", self._after_compaction, None)
        for route in self._routes:
            if route.name in self._lanes:
                await self._reframe(route, sentence)

    # Keeping

    async def _keep_drafts(self) -> None:
        kept = 0
        while True:
            await asyncio.sleep(DRAFT_SECONDS)
            pieces = len(self._text) + len(self._reasoning)
            if pieces != kept:
                kept = pieces
                draft = partial(self._session.save_draft, "".join(self._text), "".join(self._reasoning))
                await self._helpers.ask(KEEPING, draft, None)

    async def _keep_cut_pieces(self) -> None:
        pieces, self._cut = self._cut, []
        for text in pieces:
            await self._session.add("notice", text, {"kind": "cut", "to_model": False})

    def _account(self, reply: ModelReply, route: ModelRoute) -> None:
        lane = self._lane(route)
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
                window_told=self._meter.window_told,
            )
        )
