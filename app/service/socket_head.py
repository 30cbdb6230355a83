"""A client ("head") over a WebSocket: it receives every event after a number, and sends commands as frames.

Frames from the client: `message`, `answer`, `interrupt`, `move`. Each may carry `ref`, which is repeated in
the frame with the outcome. Frames from the server are the events, and `ok`, `refused`, `gap`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent.api.project_notes import drafting_instruction
from agent.errors import HermesError
from app.service.bodies import only, parse_object, text_of
from app.service.credentials import Credentials, RateLimit
from app.service.doors import HeadIdentity, Message, Receive, Send, TurnedAwayError, refuse
from app.service.hosted_session import HostedSession, SessionHub
from app.tui.commands.registry import SLASH_ALIASES
from app.tui.commands.slash_menu import words_of
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.store.operations import Operation
    from agent.integrations.gateways.ports import WordKind
    from agent.session.history.navigation import NavigationResult


log = logging.getLogger(__name__)

FRAME = 1_000_000
"""Bytes of a frame."""
LOOK = 1.0
"""Seconds between two looks at whether the device is still welcome."""
REVOKED, GOING, BYTES = 4401, 1001, 1003
"""Codes that close a socket: the device was revoked; the session or the service ends; a frame is no text."""
TURN = 50
"""Frames in a row before others get their turn."""

Taker = Callable[[dict[str, Any]], Awaitable[tuple[str, Any, Any]]]


class SocketHead:
    """The WebSocket application at `/api/sessions/ID/ws`."""

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
                raise TurnedAwayError(400, "`after` must be a whole number.")
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
        """Send every event after a number. A slow client delays no other."""
        if after > session.log.last:
            # Numbers of another log: the head has to look at the session again.
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
            try:
                text = await socket.receive_text()
            except KeyError:
                await socket.close(BYTES)
                return
            frame: dict[str, Any] = {}
            try:
                if wait := self._rate.take(caller.device):
                    raise TurnedAwayError(429, "Too many frames; wait a little.", wait)
                if len(text) > FRAME:
                    raise TurnedAwayError(413, "The frame is too large.")
                frame = parse_object(text)
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
                return {"type": "ok", "queued": await session.store_message(*await self.read_message(frame))}
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
        """Close the connection as soon as the device is revoked."""
        while True:
            await asyncio.sleep(LOOK)
            device = self._credentials.device(caller.device)
            if device is None or device.scope != caller.scope:
                await socket.close(REVOKED)
                return


async def _send(socket: WebSocket, frame: dict[str, Any]) -> None:
    await socket.send_text(json.dumps(frame, ensure_ascii=True, separators=(",", ":")))


Words = dict[str, str]
"""The result of a command: the text `told`, and a `draft` if a message becomes one again."""


@dataclass(frozen=True, slots=True)
class HeadCommand:
    """One command of heads. `act` receives the hub, the session and the text after the command's name."""

    name: str
    help: str
    act: Callable[[SessionHub, HostedSession, str], Awaitable[Words]]
    hint: str = ""
    """A hint on the arguments of the command; empty if it takes none."""


async def word_kind(client: SessionClient, name: str) -> WordKind:
    """Return what `/name` is if it is not a command: a plugin's command, a skill, a server's prompt, or
    none.
    """
    if any(each.name == name for each in await client.plugins.commands()):
        return "plugin"
    found = await asyncio.to_thread(words_of, client.workspace)
    return "prompt" if any(each.name == name for each in found) else ""


async def run_command(hub: SessionHub, session: HostedSession, text: str) -> Words:
    """Run the command in `text`, which is its name, with or without the slash, and arguments.

    Raises `HermesError` with a sentence, also for an unknown command.
    """
    text = text.strip().removeprefix("/")
    name, _, rest = text.partition(" ")
    rest = rest.strip()
    name = SLASH_ALIASES.get(name.lower(), name)
    if (command := COMMANDS.get(name.lower())) is not None:
        if rest and not command.hint:
            raise HermesError(f"/{command.name} takes nothing after it.")
        if not rest and command.hint.startswith("<"):
            raise HermesError(f"/{command.name} needs {command.hint} after it.")
        return await command.act(hub, session, rest)
    if (kind := await word_kind(session.client, name)) == "plugin":
        return {"told": await session.client.plugins.run(name, rest)}
    if kind == "prompt":
        await session.store_message(f"/{text}", "prompt")
        return {"told": ""}
    near = get_close_matches(name.lower(), COMMANDS, n=1, cutoff=0.7)
    offer = f"did you mean /{near[0]}?" if near else "the terminal may have it (`hermes --attach`)."
    raise HermesError(f"There is no command /{clean(name)[:40]} on this page; {offer} /help lists them.")


async def _undo(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    return _navigation_words("Undone", *await session.client.history.undo(), "/redo does it again.")


async def _redo(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    return _navigation_words("Redone", *await session.client.history.redo(), "/undo takes it back.")


def _navigation_words(word: str, operation: Operation, result: NavigationResult, rest: str) -> Words:
    files = result.restored.sentence() if result.restored is not None else "Files stay as they are."
    return {"told": clean(f"{word}: {operation.label}. {files} {rest}"), "draft": result.draft}


async def _stop(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    if not session.client.busy:
        return {"told": "Nothing is running."}
    session.client.interrupt()
    return {"told": ""}


async def _steer(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    await session.store_message(rest, "steer")
    return {"told": ""}


async def _compact(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    return {"told": await session.client.compact(rest)}


async def _context(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    table = await session.client.context()
    window = "an unknown window" if table.window is None else f"a window of {table.window:,}"
    rows = [f"{each.tokens:>9,}  {clean(each.name)}" for each in table.layers]
    return {"told": "\n".join([f"{table.used_tokens:,} tokens of {window}:", *rows])}


async def _model(hub: SessionHub, session: HostedSession, rest: str) -> Words:
    if not rest:
        return {"told": f"The model is {session.client.model}; /model NAME continues with another one."}
    opened = await hub.reopen(session.id, rest)
    return {"told": f"Continuing with {opened.client.model}."}


async def _effort(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    client = session.client
    level = await client.set_effort(rest) if rest else client.effort
    return {"told": f"The model thinks as much as this: {level or 'as its provider likes'}."}


async def _mode(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    mode = session.client.mode
    return {"told": f"The mode is {mode}; it is changed in the terminal (`hermes --attach`)."}


async def _init(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    text = await asyncio.to_thread(drafting_instruction, session.client.workspace)
    await session.store_message(text, "prompt")
    return {"told": ""}


async def _title(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    await session.client.stored.rename(session.id, rest)
    session.title = rest
    return {"told": f"This session is called {clean(rest)} now."}


async def _move(hub: SessionHub, session: HostedSession, rest: str) -> Words:
    return {"told": await hub.move(session, rest)}


_ALL = (
    HeadCommand("undo", "Take back the last turn, with what it did to files.", _undo),
    HeadCommand("redo", "Redo what was undone.", _redo),
    HeadCommand("stop", "Stop the running turn.", _stop),
    HeadCommand("steer", "Say something that is read before the next request.", _steer, "<text>"),
    HeadCommand("model", "Show the model, or continue with another one.", _model, "[name]"),
    HeadCommand("effort", "Show how much the model thinks, or change it.", _effort, "[level]"),
    HeadCommand("mode", "Show the mode of permissions.", _mode, "[mode]"),
    HeadCommand("compact", "Compact the conversation so far into a summary.", _compact, "[focus]"),
    HeadCommand("context", "Show what fills the window of the model.", _context),
    HeadCommand("title", "Give the session a title.", _title, "<title>"),
    HeadCommand("init", "Draft AGENTS.md, or propose improvements to it.", _init),
    HeadCommand("move", "Continue in a messenger.", _move, "<messenger|here>"),
)
COMMANDS = {each.name: each for each in _ALL}


def listed_commands() -> list[dict[str, Any]]:
    """Return name, hint and help of each command, for a new head. Pure."""
    return [{"name": each.name, "hint": each.hint, "help": each.help} for each in _ALL]
