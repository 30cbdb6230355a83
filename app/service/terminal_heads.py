"""Terminals and editors of the same person over a private socket (`hermes --attach`, `hermes acp`).

They use the frames of `agent.api`, as with an engine in a separate process. Only the owner of the home can
open the socket, so no token is needed. A terminal that disconnects or stops reading does not affect the
session.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from agent.api.child import EngineServer
from agent.api.wire import Outlet, WireError, read_frame
from agent.core.home import Home, private_folder
from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.events import EffortChanged, Event, Noticed, Reply, TurnEnded, TurnStarted
from app.service.doors import HeadIdentity, TurnedAwayError
from app.service.hosted_session import HostedSession, SessionHub

log = logging.getLogger(__name__)

MOST = 64_000_000
"""Bytes that wait for a terminal that does not read; then it is let go."""


class TerminalHeads:
    """Listens on the socket and serves the terminals that are attached to it."""

    def __init__(self, hub: SessionHub, home: Home) -> None:
        self._hub = hub
        self._home = home
        self._listening: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._heads: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Start accepting terminals. Raises `HermesError`."""
        private_folder(self._home.run)
        path = self._home.service_socket
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A home has one service, so an existing socket is left from a killed one.
            path.unlink(missing_ok=True)
            listening.bind(str(path))
            path.chmod(0o600)
        except OSError as error:
            listening.close()
            log.warning("terminals cannot attach: %s", error)
            return
        listening.listen(16)
        listening.setblocking(False)
        self._listening = listening
        self._task = asyncio.create_task(self._accept(listening), name="terminals")

    async def aclose(self) -> None:
        """Disconnect every terminal."""
        tasks = [each for each in (self._task, *self._heads) if each is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
            self._home.service_socket.unlink(missing_ok=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listening)
            task = asyncio.create_task(self._serve(connection))
            self._heads.add(task)
            task.add_done_callback(self._heads.discard)

    async def _serve(self, connection: socket.socket) -> None:
        outlet = _TerminalOutlet(connection.dup())
        reader, writer = await asyncio.open_connection(sock=connection)
        head = _TerminalHead(outlet, self._hub, _identity(connection))
        try:
            while not head.closing and (frame := await read_frame(reader)) is not None:
                head.handle(frame)
        except WireError:
            log.exception("a terminal sent what cannot be read")
        finally:
            await head.aclose()
            outlet.finish()
            writer.close()


def _identity(connection: socket.socket) -> HeadIdentity:
    """Return the identity of the process at the other end, which the operating system reports."""
    pid = 0
    if hasattr(socket, "SO_PEERCRED"):
        pid = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
    return HeadIdentity("", f"process {pid}", "approve", "this machine", "terminal")


class _TerminalOutlet(Outlet):
    """An outlet that never waits for its terminal, because other clients share the sessions."""

    def send(self, frame: Mapping[str, Any]) -> None:
        """Queue a frame. A terminal that stops reading is disconnected."""
        if self.broken:
            return
        self.queue(frame)
        if self.waiting > MOST:
            log.warning("a terminal that does not read was let go")
            self.drop()

    def finish(self) -> None:
        """Close the connection. Frames that were not sent are lost."""
        self.drop()


class _AttachedSession:
    """A hosted session in the form for one terminal. Answers carry its name, and closing only detaches it."""

    def __init__(self, session: HostedSession, identity: HeadIdentity) -> None:
        self.session = session
        self._identity = identity
        self.leave: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session.client, name)

    def answer(self, request: str, reply: Reply) -> None:
        """Reply to a request, unless another client has already replied."""
        named = replace(cast("Any", reply), by=str(self._identity)) if hasattr(reply, "by") else reply
        self.session.decide(request, named, str(self._identity))

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Run the turn of a message after those of other clients' messages; return its end."""
        client = self.session.client
        while client.busy:
            await client.idle()
        return await client.run(text, attachments)

    async def aclose(self) -> None:
        """Unsubscribe from the session."""
        self.leave()


class _TerminalHead(EngineServer):
    """Serves one attached terminal. Its session may be shared with other clients."""

    def __init__(self, outlet: Outlet, hub: SessionHub, identity: HeadIdentity) -> None:
        super().__init__(outlet)
        self._hub = hub
        self._identity = identity

    async def _open(self, options: Any, environ: dict[str, str] | None, preview: bool) -> dict[str, str]:
        try:
            session = await self._find_session(options)
        except TurnedAwayError as refusal:
            raise HermesError(str(refusal)) from refusal
        attached = _AttachedSession(session, self._identity)
        self._client = cast("Any", attached)
        client = session.client
        self._hear(
            replace(session.opened, nodes=len(client.path), approvals=client.mode, title=session.title)
        )
        if client.busy:
            self._hear(TurnStarted(turn=0))
        for event in (*session.newest.values(), *session.pending):
            self._hear(event)
        self._stay(attached, session)
        return {"id": client.id, "workspace": str(client.workspace)}

    def _stay(self, attached: _AttachedSession, session: HostedSession) -> None:
        """Send the events of a session; continue with its replacement after another client changed the
        model.
        """
        attached.session = session
        unsubscribe = session.subscribe(self._hear_if_there)

        def follow(heir: HostedSession) -> None:
            unsubscribe()
            self._stay(attached, heir)
            self._hear_if_there(EffortChanged(effort=heir.client.effort))
            self._hear_if_there(Noticed(kind="info", text=f"The session continues with {heir.client.model}."))

        def leave() -> None:
            unsubscribe()
            session.followers.remove(follow)

        session.followers.append(follow)
        attached.leave = leave

    def _hear_if_there(self, event: Event) -> None:
        if not self._outlet.broken:
            self._hear(event)

    def handle(self, frame: Mapping[str, Any]) -> None:
        """Handle a frame like an engine. A `move` frame is accepted too; it needs no open session.

        Raises `WireError`.
        """
        match frame:
            case {"call": int(number), "move": {"session": str(id), "to": str(where)}}:
                self._begin(number, self._move(id, where))
            case {"call": int(number), "check_move": str(where)}:
                self._begin(number, self._check_move(where))
            case _:
                super().handle(frame)

    async def _move(self, id: str, where: str) -> str:
        try:
            return await self._hub.move(await self._hub.session(id), where)
        except TurnedAwayError as refusal:
            raise HermesError(str(refusal)) from refusal

    async def _check_move(self, where: str) -> None:
        try:
            await self._hub.check_move(where)
        except TurnedAwayError as refusal:
            raise HermesError(str(refusal)) from refusal

    async def _find_session(self, options: Any) -> HostedSession:
        if options.resume is not None:
            return await self._hub.find_session(options.resume, options.model)
        if options.resume_last and (opened := self._hub.sessions):
            return max(opened, key=lambda each: each.used)
        return await self._hub.create(os.fspath(options.workspace), options.model)
