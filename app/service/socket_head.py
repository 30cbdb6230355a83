"""A head over a WebSocket: every event behind a number, and the commands of HTTP as frames.

Frames of the head: `message`, `answer`, `interrupt`, `move`; each may carry `ref`, which comes back with the
frame that says what became of it. Frames of ours are the events themselves, and `ok`, `refused`, `gap`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent.errors import HermesError
from app.service.bodies import only, parsed, text_of
from app.service.credentials import Credentials
from app.service.doors import HeadIdentity, Message, Receive, Send, TurnedAwayError, refuse
from app.service.hosted_session import HostedSession
from app.service.lockout import RateLimit
from app.service.session_hub import SessionHub

log = logging.getLogger(__name__)

FRAME = 1_000_000
"""Bytes of a frame."""
LOOK = 1.0
"""Seconds between two looks at whether the device is still welcome."""
REVOKED, GOING = 4401, 1001
"""How a socket is closed: the device was revoked; the session or the service ends."""
TURN = 50
"""Frames in a row before others get their turn."""

Taker = Callable[[dict[str, Any]], Awaitable[tuple[str, Any, Any]]]


class SocketHead:
    """The application behind `/api/sessions/ID/ws`."""

    def __init__(self, hub: SessionHub, credentials: Credentials) -> None:
        self._hub = hub
        self._credentials = credentials
        self._rate = RateLimit(20, 60)
        self.read_message: Taker | None = None
        """Reads a message with its images; set by the routes."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        caller: HeadIdentity = scope["state"]["caller"]
        after = connection.query_params.get("after", "0")
        try:
            if not caller.may("look"):
                raise TurnedAwayError(403, "This device may not look.")
            if not (after.isascii() and after.isdigit() and len(after) < 16):
                raise TurnedAwayError(400, "`after` is to be a whole number.")
            session = await self._hub.session(scope["path_params"]["session"])
        except TurnedAwayError as refusal:
            await refuse(scope, send, refusal)
            return
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await self._serve(socket, session, caller, int(after))

    async def _serve(
        self, socket: WebSocket, session: HostedSession, caller: HeadIdentity, after: int
    ) -> None:
        tasks = [
            asyncio.create_task(self._tell(socket, session, after)),
            asyncio.create_task(self._take(socket, session, caller)),
            asyncio.create_task(self._look(socket, caller)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                if (error := each.exception()) is not None and not isinstance(
                    error, (WebSocketDisconnect, RuntimeError, OSError)
                ):
                    log.error("a head failed", exc_info=error)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, socket: WebSocket, session: HostedSession, after: int) -> None:
        """Send every event behind a number. A head that reads slowly waits alone."""
        if after > session.log.last:
            # Numbers of another log: the head has to look at the session anew.
            await _send(socket, {"type": "gap", "first": session.log.first, "last": session.log.last})
            after = session.log.last
        elif 0 < after < session.log.gone:
            await _send(socket, {"type": "gap", "first": session.log.first, "last": session.log.last})
        sent = 0
        while not session.log.closed:
            lines = session.log.read(after)
            if not lines:
                await session.log.news(after)
                continue
            for number, line in lines:
                await socket.send_text(line)
                after = number
                sent += 1
                if sent % TURN == 0:
                    await asyncio.sleep(0)
        await socket.close(GOING)

    async def _take(self, socket: WebSocket, session: HostedSession, caller: HeadIdentity) -> None:
        while True:
            text = await socket.receive_text()
            frame: dict[str, Any] = {}
            try:
                if wait := self._rate.take(caller.device):
                    raise TurnedAwayError(429, "Too many frames; wait a little.", wait)
                if len(text) > FRAME:
                    raise TurnedAwayError(413, "The frame is too large.")
                frame = parsed(text)
                told = await self._do(frame, session, caller)
            except TurnedAwayError as refusal:
                told = {"type": "refused", "status": refusal.status, "error": str(refusal)}
            except HermesError as error:
                told = {"type": "refused", "status": 409, "error": str(error)}
            ref = frame.get("ref")
            await _send(socket, {**told, "ref": ref if isinstance(ref, (str, int)) else None})

    async def _do(
        self, frame: dict[str, Any], session: HostedSession, caller: HeadIdentity
    ) -> dict[str, Any]:
        if not caller.may("talk"):
            raise TurnedAwayError(403, "This device may not talk.")
        match frame.get("type"):
            case "message":
                assert self.read_message is not None
                return {"type": "ok", "queued": await session.taken(*await self.read_message(frame))}
            case "answer":
                only(frame, "type", "ref", "request", "answer", "feedback")
                if "answer" not in frame:
                    raise TurnedAwayError(400, "`answer` is missing.")
                feedback = text_of(frame, "feedback", "", most=10_000)
                session.answer(text_of(frame, "request", most=200), frame["answer"], feedback, caller)
                return {"type": "ok"}
            case "interrupt":
                session.client.interrupt()
                return {"type": "ok"}
            case "move":
                only(frame, "type", "ref", "to")
                where = text_of(frame, "to", most=300)
                return {"type": "ok", "told": await self._hub.move(session, where)}
            case _:
                raise TurnedAwayError(400, "A frame is of type message, answer, interrupt or move.")

    async def _look(self, socket: WebSocket, caller: HeadIdentity) -> None:
        """End with the device."""
        while True:
            await asyncio.sleep(LOOK)
            device = self._credentials.device(caller.device)
            if device is None or device.scope != caller.scope:
                await socket.close(REVOKED)
                return


async def _send(socket: WebSocket, frame: dict[str, Any]) -> None:
    await socket.send_text(json.dumps(frame, ensure_ascii=True, separators=(",", ":")))
