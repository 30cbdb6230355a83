"""The gateways of a service: those that are enabled, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

from agent.core.home import private_folder
from agent.errors import ConfigError, HermesError
from agent.integrations.gateways import message_rows
from agent.integrations.gateways.adapter import CallAnswer, GatewayContext, HookedAdapter, Place, PlatformCall
from agent.integrations.gateways.kinds import gateway_kinds, make_adapter
from agent.integrations.gateways.moving import HERE, move, refuse_group
from agent.integrations.gateways.outgoing import ChatTarget, OutgoingMessages
from agent.integrations.gateways.outgoing_files import drop_unclaimed
from agent.integrations.gateways.running_gateway import RunningGateway

if TYPE_CHECKING:
    from agent.core.config.schema import Settings
    from agent.core.home import Home
    from agent.integrations.gateways.ports import ChatHost, ChatSession

log = logging.getLogger(__name__)


class AllGateways:
    """Started once, closed before the sessions they talk to."""

    def __init__(
        self, host: ChatHost, home: Home, settings: Settings, environ: Mapping[str, str], folder: Path
    ) -> None:
        """`folder` is where sessions work unless a gateway names a folder of its own."""
        self._host = host
        self._home = home
        self._settings = settings
        self._environ = environ
        self._folder = folder
        self._running: dict[str, RunningGateway] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, names: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Start those that are enabled, or only some of them; the names of those that run.

        One that cannot start leaves its reason in `hermes gateway status`.
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
        """A request of a platform to an address of ours."""
        gateway = self._running.get(name)
        if gateway is None or not isinstance(gateway.adapter, HookedAdapter):
            return CallAnswer(404)
        return await gateway.adapter.hook(call, gateway.take)

    def opened(self, session: ChatSession) -> None:
        """The service opened a session: chats that talk to it hear of it."""
        for gateway in self._running.values():
            task = asyncio.create_task(self._tell_opened(gateway, session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def home(self, gateway: str) -> str:
        settings = getattr(self._settings.gateways, gateway, None)
        return settings.home if settings is not None else ""

    def moved(self, gateway: str, place: Place) -> None:
        if (running := self._running.get(gateway)) is not None:
            running.head(place).wake()
            running.owe()

    async def move(self, session: ChatSession, where: str) -> str:
        """Let your chat at a messenger go on with a session, or none; where it goes on, in words.

        `where` is a target of messages, or one of `moving.HERE`. Raises `ConfigError`.
        """
        to = await self.destination(where)
        path = await session.client.whole_path()
        end = path[-1].id if path else 0
        done = await self._host.database.write(lambda c: move(c, session.id, session.title, end, to))
        for gateway, place in done.left:
            if (running := self._running.get(gateway)) is not None:
                running.head(place).detach()
                running.owe()
        if to is None:
            return "It goes on here; no chat has it any more."
        self.moved(to.gateway, to.place)
        return f"It goes on in your chat at {to.gateway} too; `/move here` takes it back."

    async def destination(self, where: str) -> ChatTarget | None:
        """The chat a session can move to; None for the terminal. Raises `ConfigError` if there is none."""
        target = where.strip().lower() if ":" not in where else where.strip()
        if target in HERE:
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
        """Let go of all platforms; what was not sent waits. Never raises."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in self._running:
            try:
                await self._host.database.write(
                    lambda c, name=name: message_rows.note_state(c, name, "stopped", "", "", time.time())
                )
            except HermesError as error:
                log.warning("%s: %s", name, error)

    async def _tell_opened(self, gateway: RunningGateway, session: ChatSession) -> None:
        try:
            await gateway.opened(session)
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
        """Remove copies of files that were sent, or never put down, when a program ended."""
        try:
            claimed = await self._host.database.read(lambda c: message_rows.files_owed(c, name))
        except HermesError as error:
            log.warning("%s: %s", name, error)
            return
        await asyncio.to_thread(drop_unclaimed, self._home.gateways / name, claimed)

    async def _cannot(self, name: str, why: str) -> None:
        log.warning("%s does not run: %s", name, why)
        try:
            await self._host.database.write(
                lambda c: message_rows.note_state(c, name, "stopped", "", why, time.time())
            )
        except HermesError as error:
            log.warning("%s: %s", name, error)
