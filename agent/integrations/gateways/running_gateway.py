"""Running gateways: reconnecting after failures, receiving messages and sending deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, TypeVar

from agent.core.home import private_folder
from agent.errors import ConfigError, HermesError, StoreError
from agent.integrations.gateways import book, people
from agent.integrations.gateways.adapter import (
    Adapter,
    BadCredentialsError,
    CallAnswer,
    GatewayContext,
    GatewayError,
    Incoming,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformCall,
    RateLimitedError,
    UndeliverableError,
    gateway_kinds,
    make_adapter,
)
from agent.integrations.gateways.book import Delivery
from agent.integrations.gateways.chat_head import ChatHandler, command_of
from agent.integrations.gateways.chat_questions import shown_ask
from agent.integrations.gateways.outgoing import (
    HERE_WORDS,
    ChatTarget,
    OutgoingMessages,
    drop_copy,
    drop_unclaimed,
    move,
    refuse_group,
)
from agent.integrations.gateways.ports import ChatHost, ChatSession, Gateway
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import Settings
    from agent.core.config.sections import GatewaySettings
    from agent.core.home import Home


log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK = 1.0
"""Seconds between two searches for deliveries that other programs queued."""
LONGEST_PAUSE = 60.0
CODE_WORDS = (
    "I do not know you. If this is your Hermes, run this on its machine within an hour:\n\n"
    "```\nhermes gateway pair {code}\n```"
)


_STOP = re.compile(r"(?:\W*\bstop\b\W*){1,2}", re.IGNORECASE)
"""A mail that contains only the word "stop": as its subject, its text or both."""


class RunningGateway(Gateway):
    """A gateway that receives messages for its chats and sends deliveries. Each run needs a new object."""

    def __init__(
        self,
        name: str,
        adapter: Adapter,
        settings: GatewaySettings,
        host: ChatHost,
        approval_timeout: float,
        workspace: str,
        others: AllGateways,
    ) -> None:
        """Set up the gateway. `workspace` is the working folder of new sessions."""
        super().__init__(name, adapter, settings, host, approval_timeout, workspace)
        self._others = others
        self._heads: dict[Place, ChatHandler] = {}
        self._refused: set[Place] = set()
        """The chats already informed that their messages cannot be read."""
        self._failures = 0

    async def run(self) -> None:
        """Run until cancelled, or until the platform refuses the token."""
        database = self.host.database
        await _surely(lambda: database.write(lambda c: book.requeue_handed_messages(c, self.name)))
        for place in await _surely(lambda: database.read(lambda c: book.unfinished_places(c, self.name))):
            self.head(place).wake()
        for each in await _surely(lambda: database.read(lambda c: book.bound_places(c, self.name))):
            if await _surely(lambda each=each: self._has_unfinished_work(each.session)):
                self.head(each.place).wake()
        sending = asyncio.create_task(self._send(), name=f"{self.name} sends")
        try:
            await self._receive()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            for head in self._heads.values():
                await head.aclose()
            await self.adapter.aclose()

    async def take(self, incoming: Incoming) -> None:
        """Store an incoming message, or send an unknown sender a pairing code.

        Returns once the message is on disk. Raises `StoreError`.
        """
        settings, now = self.settings, time.time()
        if incoming.kind == "moved":
            await self._move_chat(incoming.place.chat, incoming.moved_to)
            return
        if incoming.group and (
            settings.groups == "off" or (settings.groups == "mention" and not incoming.mentioned)
        ):
            return
        said = incoming.files or incoming.unreadable or clean(incoming.text).strip()
        if incoming.kind == "message" and not said:
            return
        sender = incoming.sender
        if not sender.vouched:
            log.warning("%s: a message counts for nobody, its sender is not certain", self.name)
            return

        incoming = self._for_what_runs(incoming)

        def decide(c: Any) -> tuple[bool, str]:
            scope = people.scope_of(c, self.name, sender.id, settings.allow, settings.approve)
            if incoming.unreadable:
                if scope and incoming.place not in self._refused:
                    book.queue_delivery(
                        c, self.name, incoming.place, "text", {"text": incoming.unreadable}, now
                    )
                    self._refused.add(incoming.place)
                return False, ""
            if scope:
                return book.receive(c, self.name, incoming, now), ""
            if incoming.group or incoming.kind != "message":
                return False, ""
            code = people.new_code(c, self.name, sender.id, sender.name, incoming.place.chat, now)
            if code:
                body = {"text": CODE_WORDS.format(code=code)}
                book.queue_delivery(c, self.name, incoming.place, "text", body, now)
            return False, code

        is_new, code = await self.host.database.write(decide)
        if is_new:
            self.head(incoming.place).wake()
        if code or incoming.unreadable:
            self.wake_sender()

    def _for_what_runs(self, incoming: Incoming) -> Incoming:
        """Return a stop or steering message, if it began a new conversation, as part of the newest one with a
        running turn.

        A mail that is not a reply would otherwise stop the session that it begins.
        """
        if incoming.kind != "message" or incoming.group or incoming.place.thread != incoming.id:
            return incoming
        found = command_of(incoming.text)
        is_stop = found[0].name == "stop" if found else _STOP.fullmatch(incoming.text) is not None
        if not is_stop and (found is None or found[0].name != "steer"):
            return incoming
        chat = incoming.place.chat
        places = [place for place, head in self._heads.items() if place.chat == chat and head.is_working]
        if not places:
            return incoming
        return replace(incoming, place=places[-1], text="/stop" if is_stop else incoming.text)

    async def _move_chat(self, old: str, new: str) -> None:
        """Move the sessions of a chat to its new id."""
        for place, head in self._heads.items():
            if place.chat == old:
                head.detach()
        await self.host.database.write(lambda c: book.move_chat(c, self.name, old, new))
        for each in await self.host.database.read(lambda c: book.bound_places(c, self.name)):
            if each.place.chat == new:
                self.head(each.place).wake()
        self.wake_sender()

    def head(self, place: Place) -> ChatHandler:
        """Return the object that handles a place, creating it if needed."""
        if place not in self._heads:
            self._heads[place] = ChatHandler(self, place)
        return self._heads[place]

    def home_of(self, gateway: str) -> str:
        return self._others.home_of(gateway)

    def wake_place(self, gateway: str, place: Place) -> None:
        self._others.wake_place(gateway, place)

    async def wake_session(self, session: ChatSession) -> None:
        """Make the chats of a session check it, because the service has opened it."""
        found = await self.host.database.read(lambda c: book.places_of(c, session.id))
        for name, each in found:
            if name == self.name:
                self.head(each.place).wake()

    async def _has_unfinished_work(self, session: str) -> bool:
        """Return whether a session has an open question in a chat, or a possibly unfinished turn."""
        return bool(
            await self.host.database.read(lambda c: book.open_asks(c, self.name, session))
        ) or await self.host.database.read(lambda c: book.has_taken_message(c, self.name, session))

    # Receiving

    async def _receive(self) -> None:
        while True:
            await self._note("connecting")
            least = 0.0
            try:
                await self.adapter.run(self.take, self._ready)
                problem = "The connection ended."
            except BadCredentialsError as error:
                await self._note("stopped", problem=str(error))
                log.warning("%s: %s", self.name, error)
                return
            except HermesError as error:
                problem = str(error)
                least = getattr(error, "wait", 0.0)
            except Exception as error:
                log.exception("%s failed", self.name)
                problem = f"Internal error ({type(error).__name__})."
            wait = max(least, min(LONGEST_PAUSE, 0.5 * 2**self._failures) * random.uniform(0.8, 1.2))
            self._failures += 1
            await self._note("waiting", problem=problem)
            await asyncio.sleep(wait)

    def _ready(self, who: str) -> None:
        self._failures = 0
        self._known.set()
        task = asyncio.create_task(self._note("running", who))
        self._noting = task  # held, as nobody else does

    async def _note(self, state: str, who: str = "", problem: str = "") -> None:
        try:
            await self.host.database.write(
                lambda c: book.store_state(c, self.name, state, who, problem, time.time())
            )
        except HermesError as error:
            log.warning("%s: %s", self.name, error)

    # Sending

    async def _send(self) -> None:
        """Send the queued deliveries until cancelled.

        Chats are served in parallel, so a large file for one does not delay another.
        """
        await self.wait_until_known()
        under_way: dict[Place, asyncio.Task[None]] = {}
        try:
            while True:
                self._owed.clear()
                pause = self.paused_until - time.monotonic()
                if pause > 0:
                    await asyncio.sleep(min(pause, LONGEST_PAUSE))
                    continue
                for row in await self._due_deliveries():
                    if row.place not in under_way:
                        task = under_way[row.place] = asyncio.create_task(self._hand_on(row))
                        task.add_done_callback(lambda _, place=row.place: self._over(under_way, place))
                # `asyncio.wait_for` of Python 3.11 loses a cancellation that comes beside what it waits for.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._owed.wait()
        finally:
            sending = list(under_way.values())
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _due_deliveries(self) -> list[Delivery]:
        try:
            found: list[Delivery] = await self.host.database.read(
                lambda c: book.due_deliveries(c, self.name, time.time())
            )
            return found
        except HermesError as error:
            log.warning("%s cannot send: %s", self.name, error)
            return []

    def _over(self, under_way: dict[Place, asyncio.Task[None]], place: Place) -> None:
        task = under_way.pop(place)
        fault = None if task.cancelled() else task.exception()
        if fault is None:
            # The next one for this place.
            self.wake_sender()
        else:
            # The store: what was sent may be sent again.
            log.warning("%s cannot keep what it sent: %s", self.name, fault)

    async def _hand_on(self, row: Delivery) -> None:
        """Send one delivery, store the receipt, and delete the file copy once it is not needed.

        Raises `StoreError`.
        """
        try:
            await self._try_one(row)
        finally:
            if row.kind == "file":
                # Also where the service ends just now.
                await asyncio.shield(self._drop_copy(row))

    async def _drop_copy(self, row: Delivery) -> None:
        """Delete the copy of a file that is no longer waiting to be sent. Raises `StoreError`."""
        left = await self.host.database.read(lambda c: book.delivery(c, row.id))
        if left is None or left.state != "waiting":
            await asyncio.to_thread(drop_copy, row.body["path"])

    async def _try_one(self, row: Delivery) -> None:
        write = self.host.database.write
        async with self.lock(row.place):
            each = await self.host.database.read(lambda c: book.delivery(c, row.id))
            if each is None or each.state != "waiting":
                return
            try:
                message = await self._send_delivery(each)
            except UndeliverableError as error:
                if each.message and each.body.get("open", True):
                    # What it was to change is gone there: it is sent again.
                    await write(lambda c: book.send_anew(c, each.id))
                    return
                problem = str(error)
                await write(lambda c: book.mark_failed(c, each.id, problem))
            except RateLimitedError as error:
                self.pause(error.wait)
                wait = error.wait
                await write(lambda c: book.retry_later(c, each, time.time(), "rate limit", wait))
            except GatewayError as error:
                problem = str(error)
                await write(lambda c: book.retry_later(c, each, time.time(), problem))
            except Exception as error:
                log.exception("%s could not send", self.name)
                problem = f"Internal error ({type(error).__name__})."
                await write(lambda c: book.retry_later(c, each, time.time(), problem))
            else:
                # Without its receipt it would be sent again.
                await _surely(lambda: write(lambda c: book.mark_sent(c, each.id, message, each.body)))

    async def _send_delivery(self, each: Delivery) -> str:
        """Send or edit one delivery; return the id of its message. Raises `UndeliverableError`."""
        adapter, body = self.adapter, each.body
        key = f"hermes-{each.id}-{each.session[-8:]}"
        if each.kind == "file":
            path = Path(body["path"])
            file = OutgoingFile(path, body["name"], body["kind"], body.get("caption", ""))
            if not await asyncio.to_thread(path.is_file):
                raise UndeliverableError("The file is gone.")
            return await adapter.send_file(each.place, file, key)
        if each.kind == "ask":
            message = shown_ask(body, each.id, adapter.limits)
        else:
            message = Outgoing(text=body["text"], quiet=body.get("quiet", False))
        if not each.message:
            return await adapter.send(each.place, message, key)
        if adapter.limits.edits:
            await adapter.edit(each.place, each.message, message)
        elif each.kind == "ask" and not body["open"]:
            # Where nothing can be changed, how it ended is a message of its own.
            await adapter.send(each.place, Outgoing(text=body["over"], quiet=True), f"{key}-over")
        return each.message


async def _surely(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `work`, retried on `StoreError`, as many requests start with the service."""
    pause = 0.5
    while True:
        try:
            return await work()
        except StoreError as error:
            log.warning("%s", error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class AllGateways:
    """All running gateways of the service; started once, and closed before the sessions are."""

    def __init__(
        self, host: ChatHost, home: Home, settings: Settings, environ: Mapping[str, str], folder: Path
    ) -> None:
        """Set up the gateways. `folder` is the working folder of sessions, unless settings name others."""
        self._host = host
        self._folder = folder
        self._home = home
        self._settings = settings
        self._environ = environ
        self._running: dict[str, RunningGateway] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, names: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Start the gateways called `names`, or all enabled ones; return the names of those that run.

        If a gateway cannot start, `hermes gateway status` shows the reason.
        """
        kinds = await asyncio.to_thread(gateway_kinds)
        # All libraries before any session works: that of Telegram brings httpx, and while one thread reads
        # httpx the client of models takes the half of it for the whole.
        for name, kind in kinds.items():
            settings = getattr(self._settings.gateways, name)
            if not settings.enabled or (names and name not in names):
                continue
            folder = self._home.gateways / name
            context = GatewayContext(name, settings, self._environ, folder)
            try:
                await asyncio.to_thread(private_folder, folder)
                adapter = await asyncio.to_thread(make_adapter, kind, context)
            except HermesError as error:
                await self._cannot(name, str(error))
                continue
            self._running[name] = RunningGateway(
                name,
                adapter,
                settings,
                self._host,
                self._settings.gateway.approval_timeout,
                settings.workspace or str(self._folder),
                self,
            )
        for name, gateway in self._running.items():
            task = asyncio.create_task(self._carry(gateway), name=f"gateway {name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return tuple(self._running)

    async def hook(self, name: str, call: PlatformCall) -> CallAnswer:
        """Answer an HTTP request from a platform; with the status 404 if that gateway does not run."""
        gateway = self._running.get(name)
        return CallAnswer(404) if gateway is None else await gateway.adapter.hook(call, gateway.take)

    def wake_session(self, session: ChatSession) -> None:
        """Make the chats of a session check it, because the service has opened it."""
        for gateway in self._running.values():
            task = asyncio.create_task(self._tell_opened(gateway, session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def home_of(self, gateway: str) -> str:
        """Return the chat that the settings name for a gateway; empty if none."""
        settings = getattr(self._settings.gateways, gateway, None)
        return settings.home if settings is not None else ""

    def wake_place(self, gateway: str, place: Place) -> None:
        """Make a chat of a gateway check its messages, because a session now continues there."""
        if (running := self._running.get(gateway)) is not None:
            running.head(place).wake()
            running.wake_sender()

    async def move(self, session: ChatSession, where: str) -> str:
        """Move a session to a chat, or back to the terminal; return a sentence on where it continues.

        `where` is a target of messages, or one of `HERE_WORDS`. Raises `ConfigError`.
        """
        to = await self.destination(where)
        path = await session.client.whole_path()
        end = path[-1].id if path else 0
        done = await self._host.database.write(lambda c: move(c, session.id, session.title, end, to))
        for gateway, place in done.left:
            if (running := self._running.get(gateway)) is not None:
                running.head(place).detach()
                running.wake_sender()
        if to is None:
            return "The session continues here; no chat has it any more."
        self.wake_place(to.gateway, to.place)
        return f"The session continues in your chat at {to.gateway} too; `/move here` takes it back."

    async def destination(self, where: str) -> ChatTarget | None:
        """Return the chat that a session can move to; None for the terminal.

        Raises `ConfigError` for any other target.
        """
        target = where.strip().lower() if ":" not in where else where.strip()
        if target in HERE_WORDS:
            return None
        outgoing = OutgoingMessages(self._settings.gateways, {})

        def find(c: Connection) -> ChatTarget:
            found = outgoing.find(c, target)
            refuse_group(c, found)
            return found

        to = await self._host.database.read(find)
        if to.gateway not in self._running:
            raise ConfigError(
                f"{to.gateway} does not run with this service; `hermes gateway status` says why."
            )
        return to

    async def aclose(self) -> None:
        """Disconnect from all platforms; unsent messages stay queued. Never raises."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in self._running:
            try:
                await self._host.database.write(
                    lambda c, name=name: book.store_state(c, name, "stopped", "", "", time.time())
                )
            except HermesError as error:
                log.warning("%s: %s", name, error)

    async def _tell_opened(self, gateway: RunningGateway, session: ChatSession) -> None:
        try:
            await gateway.wake_session(session)
        except HermesError as error:
            log.warning("%s: %s", gateway.name, error)

    async def _carry(self, gateway: RunningGateway) -> None:
        await self._tidy(gateway.name)
        try:
            await gateway.run()
        except HermesError as error:
            await self._cannot(gateway.name, str(error))
        except Exception as error:
            log.exception("%s failed", gateway.name)
            await self._cannot(gateway.name, f"Internal error ({type(error).__name__}).")

    async def _tidy(self, name: str) -> None:
        """Delete file copies that an earlier process sent or never queued."""
        try:
            claimed = await self._host.database.read(lambda c: book.waiting_files(c, name))
        except HermesError as error:
            log.warning("%s: %s", name, error)
            return
        await asyncio.to_thread(drop_unclaimed, self._home.gateways / name, claimed)

    async def _cannot(self, name: str, why: str) -> None:
        log.warning("%s does not run: %s", name, why)
        try:
            await self._host.database.write(
                lambda c: book.store_state(c, name, "stopped", "", why, time.time())
            )
        except HermesError as error:
            log.warning("%s: %s", name, error)
