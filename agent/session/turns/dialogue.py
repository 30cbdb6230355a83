"""Requests for the model's next message: framing, context window, retries, usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent.core.attachments import AttachmentStore
from agent.core.messages import Image, Message
from agent.core.store.nodes import Node
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
from agent.knowledge.context.context_table import Break, ContextTable, PrefixLedger, Sent, build_table
from agent.knowledge.context.message_history import MessageHistory, conversation
from agent.model.codecs import codec_for
from agent.model.codecs.native import COUNTED, surplus, with_fitting, without_images
from agent.model.dialect import Dialect, RoleRules
from agent.model.protocol import (
    COMPACT,
    SMALL_WINDOW,
    THOUGHT,
    CallFragment,
    Delta,
    Frame,
    ModelRequest,
    Profile,
    ReasoningDelta,
    RequestTrial,
    TextDelta,
    Thinking,
)
from agent.model.repairs import Repair
from agent.model.transport.reply import ModelReply, ModelRoute, fetch_reply
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter, request_cost
from agent.model.wire_format import Framer, Wire, prepare_tools, schema_digest
from agent.session.conversation.live_session import LiveSession
from agent.session.turns.request_record import RequestRecorder
from agent.session.turns.room import ContextRoom, RoomRules, Summarizer
from agent.session.turns.turn_helpers import TurnHelpers
from tools.text.safe_text import printable


@dataclass(slots=True, kw_only=True)
class Lane:
    """The conversation in the form in which one route sends it."""

    system: bytes
    tools: bytes
    framer: Framer
    ledger: PrefixLedger = field(default_factory=PrefixLedger)
    framed: int = 0
    """The number of the session's messages whose frames are in the ledger."""
    dialect: Dialect
    """The dialect in which the frames are written."""
    ordered: RoleRules | None = None
    """The role rules of the last answered request."""
    surplus: int = 0
    """The bytes of images in the ledger beyond those that are counted for them."""

    @property
    def size(self) -> int:
        """The size of the next request, in bytes, from which its tokens are estimated."""
        return self.ledger.size + len(self.head) - self.surplus

    @property
    def head(self) -> bytes:
        """The part of a request that precedes the conversation."""
        return self.tools + self.system


class LaneFraming:
    """Builds the `Lane` of each route, and its frames (messages as bytes), for one session."""

    def __init__(self, session: LiveSession, attachments: AttachmentStore, profile: Profile) -> None:
        self._session = session
        self._attachments = attachments
        self._profile = profile

    def lane(self, route: ModelRoute, dialect: Dialect | None = None) -> Lane:
        """Return an empty `Lane` for a route; `dialect` replaces the route's own dialect."""
        dialect = dialect or route.spoken.current
        node = self._session.system()
        tools = route.wire.tools(route.tools, dialect)
        system = route.wire.system(
            node.content if node is not None else "", prepare_tools(route.tools, dialect)
        )
        framer = route.wire.framer(route.name, tools + system, dialect)
        return Lane(system=system, tools=tools, framer=framer, dialect=dialect)

    def examples(self, framer: Framer) -> list[Frame]:
        """Return the frames of the worked examples that precede the conversation."""
        return [frame for message in self._profile.examples for frame in framer.frames(message)]

    def left_out(self, dialect: Dialect) -> frozenset[str]:
        """Return the SHA-256 of images to omit: refused by the model, or older ones beyond its limit."""
        rules = dialect.images
        if not rules.count:
            return frozenset(rules.without)
        digests = list(dict.fromkeys(self.image_digests()))
        kept = [each for each in digests if each not in rules.without]
        return frozenset((*rules.without, *kept[: -rules.count]))

    def frames(
        self, framer: Framer, lane: Lane, messages: Sequence[MessageHistory], images: bool
    ) -> list[Frame]:
        """Return messages as frames. Reads the files of their images."""
        frames: list[Frame] = []
        rules = lane.dialect.images
        left_out = self.left_out(lane.dialect)
        for turned in messages:
            message = turned.message
            if message.images:
                message = with_fitting(message, rules, left_out) if images else without_images(message)
                message = self._load_images(message)
            lane.surplus += surplus(message)
            frames += framer.frames(message)
        return frames

    def _load_images(self, message: Message) -> Message:
        images = (Image(each.attachment, self._attachments.read(each.attachment)) for each in message.images)
        return replace(message, images=tuple(images)) if message.images else message

    def image_digests(self) -> list[str]:
        """Return the SHA-256 of all images in the conversation, in order."""
        messages = self._session.messages()
        return [image.attachment.sha256 for turned in messages for image in turned.message.images]


BLIND = 12
"""Characters per counted token from which on the model cannot have read everything."""

SEEN = 8
"""Characters of messages per counted token up to which a server's count is believed."""


class ServerNews:
    """Tracks the model servers of a session's routes; the first route determines the context window."""

    def __init__(self, meter: Meter, emit: Callable[[Event], None]) -> None:
        self._meter = meter
        self._emit = emit
        self._answered: set[str] = set()

    async def renew(self, routes: Sequence[ModelRoute]) -> list[tuple[ModelRoute, str]]:
        """Ask restarted servers about their models.

        Returns the routes whose model can no longer be sent tools in the native form, each with a reason.
        """
        untooled: list[tuple[ModelRoute, str]] = []
        for at, route in enumerate(routes):
            now = await route.watched.news() if route.watched is not None else None
            if now is None:
                continue
            if at == 0:
                self._meter.renew(now.info)
                if window := now.info.context_window:
                    route.spoken.forget_window()
                    words = f"The window of {route.name} has {window:,} tokens, told by the server."
                    self._emit(Noticed(kind="info", text=words))
            if now.untooled:
                untooled.append((route, f"the server of {route.name} says that its template knows no tools"))
        return untooled

    async def name_reply(self, route: ModelRoute, reply: ModelReply) -> ModelReply:
        """Return the reply with the name of the model that answered, if a gateway chose another one."""
        if not reply.answered:
            return reply
        other = await route.watched.other(reply.answered) if route.watched is not None else None
        if other is None:
            return replace(reply, answered="")
        self._meter.learn_model(other.label, other.info)
        if other.label not in self._answered:
            self._answered.add(other.label)
            self._emit(Noticed(kind="info", text=f"{other.label} answered in place of {route.name}."))
        # The price is stored with the message: a later session does not know this model.
        usage = replace(reply.usage, cost=request_cost(reply.usage, other.info))
        return replace(reply, answered=other.label, usage=usage)

    def unseen(self, route: ModelRoute, reply: ModelReply, size: int, tools: int) -> str:
        """Return the reason to believe that the model did not see the tools of its first request; empty if it
        did.

        Some servers accept tools and drop them, because their template does not use them. `size` is the size
        of the request in bytes, `tools` that of its tools. A count too small even for the messages is ignored
        as invented, unless the server is known to count.
        """
        first = route.name not in self._answered
        self._answered.add(route.name)
        if not first or reply.calls or route.watched is None or not route.watched.may_drop_tools:
            return ""
        read = reply.usage.input
        if not read or reply.usage.cached or size < BLIND * read:
            return ""
        if size - tools > SEEN * read and not route.watched.counts_tokens:
            return ""
        return f"{route.name} read {read:,} tokens of {size:,} characters, so it was not shown its tools"


DRAFT_SECONDS = 1.0
"""Seconds between two saves of a message that is being streamed."""

BULK = 200
"""The number of new messages above which they are serialised off the event loop."""

MAX_OVERFLOWS = 2
"""The maximum number of times room is made for one request that was refused as too large."""

KEEPING = "Keeping what the model was writing"
RECORD = "The record of a request"
"""The name of this step in a notice about its failure."""

SMALL = "The window of {model} is small: from here on it has few tools and a short prompt."
THINKING_CHANGED = "thinking was switched for this turn"
DIALECT = "dialect"
"""The reason for a prefix break when a refusal showed that messages already sent need another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """The settings with which requests to a model are made."""

    policy: RetryPolicy
    """The rules for retries of a failed request."""
    temperature: float | None = None
    max_output: int | None = None
    thinking: Callable[[], Thinking | None] = lambda: None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request body."""


class Dialogue:
    """Sends the conversation of one session to its models, and returns their messages."""

    def __init__(
        self,
        session: LiveSession,
        routes: Sequence[ModelRoute],
        profile: Profile,
        meter: Meter,
        attachments: AttachmentStore,
        asking: RequestSettings,
        rules: RoomRules,
        helpers: TurnHelpers,
    ) -> None:
        self._session = session
        self._routes = routes
        self._profile = profile
        self._meter = meter
        self.asking = asking
        """The settings of the next request."""
        self._rules = rules
        self._shrink = rules.shrink
        self._helpers = helpers
        emit = self._emit = helpers.emit
        self._lanes: dict[str, Lane] = {}
        self._framing = LaneFraming(session, attachments, profile)
        self._breaks: list[Break] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._cut: list[str] = []
        self._drafted: dict[int, list[Any]] = {}
        self._step = 0
        self._attempt = 0
        self._asked = ""
        """The label of the model to which the last request was sent."""
        self._thinking_problems: set[str] = set()
        """Reasons why requests do not ask for thinking, each already shown to the user."""
        self._trials: dict[str, RequestTrial] = {}
        """The repairs of the running request, by route."""
        self._recorder = RequestRecorder()
        self._record: dict[str, Any] = {}
        self._servers = ServerNews(meter, emit)
        if (remember := rules.remember) is not None:

            async def keep(notes: Sequence[tuple[str, str]]) -> int:
                return await helpers.ask("Keeping notes", partial(remember, notes), 0)

            rules = replace(rules, remember=keep)
        summarizer = Summarizer(rules.summary_route or routes[0], meter)
        self._room = ContextRoom(session, meter, summarizer.ask, emit, rules, self._measure, self._made_room)

    async def next_reply(self, step: int) -> ModelReply:
        """Make room if needed; return the model's next message. Raises `ModelError` if there is none."""
        self._step = step
        self._trials.clear()
        if step == 1:
            await self._helpers.ask("Asking a model server", self._hear_of_servers, None)
        for route in self._routes:
            lane = self._lanes.get(route.name)
            if lane is not None and not lane.dialect.framed_as(route.spoken.current):
                await self._reframe(route, DIALECT)
        await self._session.prepare()
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
                if error.no_tools and await self._write_calls_as_text(self._route_named(self._asked), ""):
                    continue
                overflows += error.kind == "overflow"
                if error.kind != "overflow" or overflows > MAX_OVERFLOWS:
                    raise
                self._learn_window(error, error.limit)
                window = self._meter.window
                if window is not None and window < SMALL_WINDOW and await self._become_compact():
                    overflows = 0
                elif not await self._room.after_overflow(self._estimate(), overflows):
                    lane = self._lane(self._routes[0])
                    # Nothing can be folded, and most of it is our own: the window must be small.
                    if window is not None or 2 * len(lane.head) < lane.size:
                        raise
                    self._learn_window(error, min(self._estimate(), SMALL_WINDOW - 1))
                    if not await self._become_compact():
                        raise

    def _learn_window(self, error: ModelError, tokens: int | None) -> None:
        """Store the window size that a refusal named, for this session and later ones."""
        known, route = self._meter.window, self._route_named(self._asked)
        before = route.spoken.current.limits.window
        if tokens is not None and known is not None and before == known < tokens:
            # The learned rule is not valid any more.
            route.spoken.forget_window()
            self._meter.forget_window(None)
            known = None
        if tokens is None or (known is not None and known <= tokens):
            return
        self._meter.learn_window(tokens)
        if route is self._routes[0]:
            change = {"limits": {"window": tokens}}
            route.spoken.learn([(Repair("compact", change), printable(error.said))])

    async def _become_compact(self) -> bool:
        """Switch to fewer tools and a shorter prompt, if that is still possible; return whether this
        happened.
        """
        if self._shrink is None:
            return False
        shrink, self._shrink = self._shrink, None
        tools = tuple(await shrink())
        self.asking = replace(self.asking, max_output=self.asking.max_output or COMPACT.max_output)
        self._routes = tuple(replace(route, tools=tools) for route in self._routes)
        self._emit(Noticed(kind="info", text=SMALL.format(model=self._routes[0].name)))
        await self.begin_again("the window is small")
        return True

    def take_partial(self) -> tuple[str, str, str]:
        """Return and forget the text, the reasoning and the model's label of an incomplete message."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        self._text.clear()
        self._reasoning.clear()
        return text, reasoning, self._asked

    def usage(self) -> dict[str, int | float | None]:
        """Return the tokens and US dollars used so far by the whole session; None stands for unknown."""
        return self._meter.totals()

    def take_aside(self) -> list[dict[str, Any]]:
        """Return the usage of side models since the last call, to be stored with the next message."""
        return self._meter.take_aside()

    def take_record(self) -> dict[str, Any]:
        """Return and forget the record of the last answered request, to be stored with the answer."""
        record, self._record = self._record, {}
        return record

    async def context(self) -> ContextTable:
        """Return what fills the context window now, and the usage. Counted off the event loop."""
        route = self._routes[0]
        sent = Sent(route.wire, route.tools, self._profile.examples, route.searched)
        ratio, used = self._meter.ratio, self._meter.totals()
        window, told = self._meter.window, self._meter.window_told
        path, breaks = self._session.path[:], tuple(self._breaks)
        table = partial(build_table, model=route.name, window=window, window_told=told, ratio=ratio)
        return await asyncio.to_thread(table, path, sent, used=used, breaks=breaks)

    async def _fetch(self) -> ModelReply:
        self._text.clear()
        self._reasoning.clear()
        drafts = asyncio.create_task(self._keep_drafts())
        try:
            reply = await fetch_reply(self._routes, self._build, self, self.asking.policy)
        finally:
            drafts.cancel()
            await asyncio.gather(drafts, return_exceptions=True)
            await self._helpers.ask(KEEPING, self._keep_cut_pieces, None)
        self._text.clear()
        self._reasoning.clear()
        route = next(route for route in self._routes if route.name == reply.route)
        await self._helpers.ask("Asking a model server", self._hear_of_servers, None)
        reply = await self._helpers.ask(
            "Naming the model that answered", partial(self._servers.name_reply, route, reply), reply
        )
        self._helpers.hear("Counting what was used", lambda: self._account(reply, route), None)
        record = partial(self._recorder.record, route, reply, images=route.images)
        self._record = await self._helpers.ask(RECORD, record, {})
        return reply

    # Callbacks of `fetch_reply`.

    def start(self, route: ModelRoute, attempt: int) -> None:
        self._attempt = attempt
        self._asked = route.name
        self._drafted.clear()
        self._emit(RequestStarted(model=route.name, step=self._step, attempt=attempt))

    def show(self, delta: Delta) -> None:
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

    def discard(self, reason: str) -> None:
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
            lane.ledger.extend(self._framing.frames(lane.framer, lane, fresh, route.images))
            lane.framed = len(messages)
        wanted = self.asking.thinking()
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
            max_output=self.asking.max_output,
            usual_output=route.usual_output,
            temperature=self.asking.temperature,
            thinking=wanted if thinks else "off",
            reply_schema=route.wire.reply_schema(route.tools),
            digest=lane.framer.digest if thinks else "",
            extra=dict(self.asking.extra),
            told=self._recorder.sent.record,
            trial=self._trial(route),
        )
        problem = route.wire.format.thinking_problem(request, lane.dialect)
        if problem and problem not in self._thinking_problems:
            self._thinking_problems.add(problem)
            self._emit(Noticed(kind="warning", text=problem))
        self._helpers.hear(RECORD, lambda: self._recorder.begin(request), None)
        return request

    def _trial(self, route: ModelRoute) -> RequestTrial:
        trial = self._trials.get(route.name)
        if trial is None:

            async def rebuild(_: ModelRequest, dialect: Dialect) -> ModelRequest:
                now = self._route_named(route.name)
                if not dialect.framed_as(self._lane(now).dialect):
                    await self._reframe(now, DIALECT, dialect)
                return self._build(now)

            def digests() -> dict[str, str]:
                return {tool.name: schema_digest(tool) for tool in route.tools}

            trial = RequestTrial(rebuild=rebuild, images=self._framing.image_digests, tools=digests)
            self._trials[route.name] = trial
        return trial

    def _route_named(self, name: str) -> ModelRoute:
        return next(route for route in self._routes if route.name == name)

    def _lane(self, route: ModelRoute) -> Lane:
        lane = self._lanes.get(route.name)
        if lane is None:
            lane = self._lanes[route.name] = self._framing.lane(route)
            lane.ledger.extend(self._framing.examples(lane.framer))
        return lane

    async def _frame(self, route: ModelRoute) -> None:
        """Serialise the messages that have not been sent. Images and many messages are handled off the event
        loop.
        """
        lane = self._lane(route)
        fresh = self._session.messages()[lane.framed :]
        if any(turned.message.images for turned in fresh) and self._framing.left_out(lane.dialect):
            # Older images may have to be dropped for new ones.
            await self._reframe(route, DIALECT)
        elif len(fresh) > BULK or any(turned.message.images for turned in fresh):
            frames = await asyncio.to_thread(
                self._framing.frames, lane.framer, lane, list(fresh), route.images
            )
            lane.ledger.extend(frames)
            lane.framed += len(fresh)

    async def _reframe(self, route: ModelRoute, reason: str, dialect: Dialect | None = None) -> None:
        """Serialise the whole conversation again. This is a declared break of the prompt prefix, for
        `reason`.
        """
        lane = self._lane(route)
        fresh = self._framing.lane(route, dialect or self._spoken_now(route))
        messages = list(self._session.messages())
        lane.surplus, lane.dialect = 0, fresh.dialect
        frames = self._framing.examples(fresh.framer)
        frames += await asyncio.to_thread(self._framing.frames, fresh.framer, lane, messages, route.images)
        lane.system, lane.tools, lane.framer = fresh.system, fresh.tools, fresh.framer
        lane.ledger.rewrite(frames, reason)
        lane.framed = len(messages)

    def _spoken_now(self, route: ModelRoute) -> Dialect:
        """Return the dialect of the running request or, without one, of the route."""
        trial = self._trials.get(route.name)
        return trial.dialect if trial is not None and trial.dialect is not None else route.spoken.current

    async def begin_again(self, reason: str) -> None:
        """Declare a break of the prompt prefix on every route, because the conversation was replaced."""
        self.take_partial()
        names = {route.name: route for route in self._routes}
        for name in list(self._lanes):
            await self._reframe(names[name], reason)

    # Private servers

    async def _hear_of_servers(self) -> None:
        for route, reason in await self._servers.renew(tuple(self._routes)):
            await self._write_calls_as_text(route, reason)

    async def _saw_tools(self, reply: ModelReply) -> bool:
        """Return whether the model received its tools, judged by its token count. If not, calls are sent as
        text from now on.
        """
        route = next(each for each in self._routes if each.name == reply.route)
        lane = self._lane(route)
        unseen = partial(self._servers.unseen, route, reply, lane.size, len(lane.tools))
        reason = self._helpers.hear("Looking whether tools were read", unseen, "") if lane.tools else ""
        if reason:
            await self._write_calls_as_text(route, reason)
        return not reason

    async def _write_calls_as_text(self, route: ModelRoute, reason: str) -> bool:
        if route.wire.mode.mode != "native":
            return False
        changed = replace(route, wire=Wire(route.wire.format, codec_for("text")), images=False)
        self._routes = tuple(changed if each is route else each for each in self._routes)
        if reason:
            self._emit(Noticed(kind="warning", text=f"Calls travel as text from here on: {reason}."))
        if route.name in self._lanes:
            await self._reframe(changed, "calls travel as text")
        return True

    # Room in the window

    async def compact(self, focus: str) -> str:
        """Fold as much as possible at the user's request; return a sentence about the result.

        Raises `HermesError`.
        """
        await self._session.prepare()
        await self._frame(self._routes[0])
        return await self._room.compact(focus, self._estimate())

    def _estimate(self) -> int:
        """Return the estimated number of tokens of the next request on the first route."""
        lane = self._lane(self._routes[0])
        messages = self._session.messages()[lane.framed :]
        unframed = sum(
            len(turned.message.content) + COUNTED * len(turned.message.images) for turned in messages
        )
        return self._meter.estimate(lane.size + unframed)

    def _measure(self, path: Sequence[Node]) -> int:
        """Return the estimated tokens of a request for a path on the first route. For use in any thread."""
        route = self._routes[0]
        fresh = self._framing.lane(route)
        size = len(fresh.head) + sum(map(len, self._framing.examples(fresh.framer)))
        for turned in conversation(path):
            size += COUNTED * len(turned.message.images)
            size += sum(map(len, fresh.framer.frames(without_images(turned.message))))
        return self._meter.estimate(size)

    async def _made_room(self, sentence: str) -> None:
        """Serialise the conversation again on every route, after a compaction was stored."""
        if self._rules.compacted is not None:
            await self._helpers.ask("Following a compaction", self._rules.compacted, None)
        for route in self._routes:
            if route.name in self._lanes:
                await self._reframe(route, sentence)

    # Storing

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
        roles = route.spoken.current.roles
        if lane.ordered not in (None, roles):
            self._breaks.append(Break(DIALECT, declared=True))
            self._emit(PrefixBroken(reason=DIALECT, declared=True))
        lane.ordered = roles
        if (window := route.spoken.current.limits.window) and (reply.usage.input or 0) > window:
            route.spoken.forget_window()
            self._meter.forget_window(None)
            text = f"{route.name} took more than the {window:,} tokens that a refusal named as its window, "
            self._emit(Noticed(kind="info", text=f"{text}which counts no longer."))
        elif window:
            self._meter.learn_window(window)
        self._meter.add(reply.usage, lane.size, reply.answered or reply.route)
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
