"""The HTTP interface of sessions. Access has already been checked by `doors`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent.api.project_notes import drafting_instruction
from agent.core.attachments import AttachmentError, AttachmentStore
from agent.core.home import Home
from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.knowledge.canvas.documents import FENCES, CanvasDocuments, render_page
from app.service.credentials import Credentials, Lockout, RateLimit, Scope, WrongCodeError
from app.service.doors import (
    ATTACHMENTS,
    BODY,
    Address,
    ClientIdentity,
    Message,
    Receive,
    RequestRefusedError,
    Send,
    body_of,
    check_fields,
    json_body,
    parse_object,
    refuse,
    text_of,
)
from app.service.hosted_session import HostedSession, SessionHub
from app.service.retelling import past_events
from app.tui.commands.registry import SLASH_ALIASES
from app.tui.commands.slash_menu import words_of
from themes.loader import builtin_names, load_skin
from tools.kit.private_folders import PrivateFolder
from tools.text.safe_text import clean
from tools.text.words import full_stop

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.store.operations import Operation
    from agent.integrations.gateways.ports import WordKind
    from agent.session.history.navigation import NavigationResult

log = logging.getLogger(__name__)

FRAME = 1_000_000
"""The largest number of bytes in a frame."""
LOOK = 1.0
"""Seconds between two checks whether the device was revoked."""
REVOKED, GOING, BYTES = 4401, 1001, 1003
"""Codes that close a socket: the device was revoked; the session or service ends; a frame is not text."""
TURN = 50
"""The number of frames sent in a row before other tasks get their turn."""

Taker = Callable[[dict[str, Any]], Awaitable[tuple[str, Any, Any]]]


class SocketApp:
    """The WebSocket application at `/api/sessions/ID/ws`."""

    def __init__(self, hub: SessionHub, credentials: Credentials) -> None:
        self._hub = hub
        self._credentials = credentials
        self._rate = RateLimit(20, 60)
        self.read_message: Taker | None = None
        """Reads a message with its images; set by the routes."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        caller: ClientIdentity = scope["state"]["caller"]
        after = connection.query_params.get("after", "0")
        try:
            if not caller.has_scope("look"):
                raise RequestRefusedError(403, "This device may not look.")
            if not (after.isascii() and after.isdigit() and len(after) < 16):
                raise RequestRefusedError(400, "`after` must be a whole number.")
            session = await self._hub.session(scope["path_params"]["session"])
        except RequestRefusedError as refusal:
            await refuse(scope, send, refusal)
            return
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await self._serve(socket, session, caller, int(after))

    async def _serve(
        self, socket: WebSocket, session: HostedSession, caller: ClientIdentity, after: int
    ) -> None:
        tasks = [
            asyncio.create_task(self._send_events(socket, session, after)),
            asyncio.create_task(self._receive_frames(socket, session, caller)),
            asyncio.create_task(self._close_if_revoked(socket, caller)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                if (error := each.exception()) is not None and not isinstance(
                    error, (WebSocketDisconnect, RuntimeError, OSError)
                ):
                    log.error("a client failed", exc_info=error)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_events(self, socket: WebSocket, session: HostedSession, after: int) -> None:
        """Send every event after the number `after`. A slow client delays no other client."""
        if after > session.log.last:
            # The number is from another log: the client has to load the session again.
            await _send(socket, {"type": "gap", "first": session.log.first, "last": session.log.last})
            after = session.log.last
        elif 0 < after < session.log.gone:
            await _send(socket, {"type": "gap", "first": session.log.first, "last": session.log.last})
        sent = 0
        while not session.log.closed:
            lines = session.log.read(after)
            if not lines:
                await session.log.wait_for_events(after)
                continue
            for number, line in lines:
                await socket.send_text(line)
                after = number
                sent += 1
                if sent % TURN == 0:
                    await asyncio.sleep(0)
        await socket.close(GOING)

    async def _receive_frames(
        self, socket: WebSocket, session: HostedSession, caller: ClientIdentity
    ) -> None:
        while True:
            try:
                text = await socket.receive_text()
            except KeyError:
                await socket.close(BYTES)
                return
            frame: dict[str, Any] = {}
            try:
                if wait := self._rate.count_request(caller.device):
                    raise RequestRefusedError(429, "Too many frames; wait a little.", wait)
                if len(text) > FRAME:
                    raise RequestRefusedError(413, "The frame is too large.")
                frame = parse_object(text)
                reply = await self._handle_frame(frame, session, caller)
            except RequestRefusedError as refusal:
                reply = {"type": "refused", "status": refusal.status, "error": str(refusal)}
            except HermesError as error:
                reply = {"type": "refused", "status": 409, "error": str(error)}
            ref = frame.get("ref")
            await _send(socket, {**reply, "ref": ref if isinstance(ref, (str, int)) else None})

    async def _handle_frame(
        self, frame: dict[str, Any], session: HostedSession, caller: ClientIdentity
    ) -> dict[str, Any]:
        if not caller.has_scope("talk"):
            raise RequestRefusedError(403, "This device may not talk.")
        match frame.get("type"):
            case "message":
                assert self.read_message is not None
                return {"type": "ok", "queued": await session.store_message(*await self.read_message(frame))}
            case "answer":
                check_fields(frame, "type", "ref", "request", "answer", "feedback")
                if "answer" not in frame:
                    raise RequestRefusedError(400, "`answer` is missing.")
                feedback = text_of(frame, "feedback", "", most=10_000)
                session.answer(text_of(frame, "request", most=200), frame["answer"], feedback, caller)
                return {"type": "ok"}
            case "interrupt":
                session.client.interrupt()
                return {"type": "ok"}
            case "move":
                check_fields(frame, "type", "ref", "to")
                where = text_of(frame, "to", most=300)
                return {"type": "ok", "told": await self._hub.move(session, where)}
            case _:
                raise RequestRefusedError(400, "A frame is of type message, answer, interrupt or move.")

    async def _close_if_revoked(self, socket: WebSocket, caller: ClientIdentity) -> None:
        """Close the socket once its device is revoked or its scope has changed."""
        while True:
            await asyncio.sleep(LOOK)
            device = self._credentials.device(caller.device)
            if device is None or device.scope != caller.scope:
                await socket.close(REVOKED)
                return


async def _send(socket: WebSocket, frame: dict[str, Any]) -> None:
    await socket.send_text(json.dumps(frame, ensure_ascii=True, separators=(",", ":")))


Words = dict[str, str]
"""The result of a command: the text `told`, and a `draft` if a message was taken back into the prompt."""


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A command for clients. `act` gets the hub, the session and the text after the command's name."""

    name: str
    help: str
    act: Callable[[SessionHub, HostedSession, str], Awaitable[Words]]
    hint: str = ""
    """A hint on the arguments of the command; empty if it takes none."""


async def word_kind(client: SessionClient, name: str) -> WordKind:
    """Return what `/name` is: `plugin` for a plugin's command, `prompt` for a skill or a server's prompt,
    else "".
    """
    if any(each.name == name for each in await client.plugins.commands()):
        return "plugin"
    found = await asyncio.to_thread(words_of, client.workspace)
    return "prompt" if any(each.name == name for each in found) else ""


async def run_command(hub: SessionHub, session: HostedSession, text: str) -> Words:
    """Run the command in `text`, a name with or without the slash, and arguments; return its result.

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
    return {"told": clean(f"{word}: {full_stop(operation.label)} {files} {rest}"), "draft": result.draft}


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
    ClientCommand("undo", "Take back the last turn, with what it did to files.", _undo),
    ClientCommand("redo", "Redo what was undone.", _redo),
    ClientCommand("stop", "Stop the running turn.", _stop),
    ClientCommand("steer", "Say something that is read before the next request.", _steer, "<text>"),
    ClientCommand("model", "Show the model, or continue with another one.", _model, "[name]"),
    ClientCommand("effort", "Show how much the model thinks, or change it.", _effort, "[level]"),
    ClientCommand("mode", "Show the mode of permissions.", _mode, "[mode]"),
    ClientCommand("compact", "Compact the conversation so far into a summary.", _compact, "[focus]"),
    ClientCommand("context", "Show what fills the window of the model.", _context),
    ClientCommand("title", "Give the session a title.", _title, "<title>"),
    ClientCommand("init", "Draft AGENTS.md, or propose improvements to it.", _init),
    ClientCommand("move", "Continue in a messenger.", _move, "<messenger|here>"),
)
COMMANDS = {each.name: each for each in _ALL}


def listed_commands() -> list[dict[str, Any]]:
    """Return name, hint and help of each command, for clients that connect. Pure."""
    return [{"name": each.name, "hint": each.hint, "help": each.help} for each in _ALL]


PAGE = 5_000
"""The largest number of events in an answer that is not a stream."""
WINDOW = 100
"""The default number of messages in one part of a conversation."""
WAIT = 55.0
"""The longest time in seconds that a request waits for an event."""
YEAR = 365 * 86_400
HOWS = ("prompt", "queue", "steer")

Handler = Callable[[Request], Awaitable[Response]]


class Routes:
    """The HTTP paths of the interface, with the scope that each requires."""

    def __init__(self, hub: SessionHub, credentials: Credentials, home: Home, address: Address) -> None:
        self._hub = hub
        self._credentials = credentials
        self._home = home
        self._address = address
        self._wrong_codes = Lockout(10, 60)
        self.sockets = SocketApp(hub, credentials)
        self.sockets.read_message = partial(message_of, home=home)

    def routes(self) -> list[BaseRoute]:
        """Return the HTTP routes of sessions."""
        one = "/api/sessions/{session}"
        return [
            Route("/api/pair", self._with_refusals(self._pair), methods=["POST"]),
            Route("/api/me", self._with_refusals(self._me, "look"), methods=["GET"]),
            Route("/api/sessions", self._with_refusals(self._list, "look"), methods=["GET"]),
            Route("/api/sessions", self._with_refusals(self._create, "talk"), methods=["POST"]),
            Route(one, self._with_refusals(self._state, "look"), methods=["GET"]),
            Route(f"{one}/events", self._with_refusals(self._events, "look"), methods=["GET"]),
            Route(f"{one}/history", self._with_refusals(self._history, "look"), methods=["GET"]),
            Route(f"{one}/canvas/{{document}}", self._with_refusals(self._canvas, "look"), methods=["GET"]),
            Route(f"{one}/messages", self._with_refusals(self._message, "talk"), methods=["POST"]),
            Route(f"{one}/interrupt", self._with_refusals(self._interrupt, "talk"), methods=["POST"]),
            Route(f"{one}/queue", self._with_refusals(self._queue, "talk"), methods=["POST"]),
            Route(f"{one}/commands", self._with_refusals(self._command, "talk"), methods=["POST"]),
            Route(f"{one}/move", self._with_refusals(self._move, "talk"), methods=["POST"]),
            Route(f"{one}/requests/{{request}}", self._with_refusals(self._answer, "talk"), methods=["POST"]),
            WebSocketRoute(f"{one}/ws", self.sockets),
        ]

    def _with_refusals(self, handler: Handler, scope: Scope | None = None) -> Handler:
        async def handle(request: Request) -> Response:
            try:
                if scope is not None and not caller_of(request).has_scope(scope):
                    raise RequestRefusedError(403, f"This device may not {scope}.")
                return await handler(request)
            except RequestRefusedError as refusal:
                return refusal_response(refusal)
            except HermesError as error:
                return refusal_response(RequestRefusedError(409, str(error)))

        return handle

    # Pairing

    async def _pair(self, request: Request) -> Response:
        data = await json_body(request, 10_000)
        check_fields(data, "code", "name", "cookie")
        code, name = text_of(data, "code", most=100), text_of(data, "name", "", most=200)
        address = request.client.host if request.client else ""
        try:
            token, device = await asyncio.to_thread(self._credentials.pair, code, name, address)
        except WrongCodeError as error:
            letters = "".join(each for each in code.upper() if each.isalnum())
            if wait := self._wrong_codes.record_failure(letters[:4]):
                raise RequestRefusedError(429, "Too many wrong codes; wait a little.", wait) from error
            raise RequestRefusedError(403, str(error)) from error
        identity = {"device": device.id, "name": device.name, "scope": device.scope}
        if data.get("cookie") is not True:
            return answer({"token": token, **identity})
        response = answer(identity)
        response.set_cookie(
            self._address.cookie,
            token,
            max_age=YEAR,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._address.scheme == "https",
        )
        return response

    async def _me(self, request: Request) -> Response:
        caller = caller_of(request)
        identity = {"device": caller.device, "name": caller.name, "scope": caller.scope}
        return answer({**identity, "workspace": self._hub.workspace, "commands": listed_commands()})

    # Sessions

    async def _list(self, _request: Request) -> Response:
        return answer({"sessions": await self._hub.list_sessions()})

    async def _create(self, request: Request) -> Response:
        data = await json_body(request)
        check_fields(data, "workspace", "model")
        model = text_of(data, "model", "", most=200)
        workspace = text_of(data, "workspace", "", most=4_096) or self._hub.workspace
        session = await self._hub.create(workspace, model or None)
        return answer({"session": session.id}, 201)

    async def _state(self, request: Request) -> Response:
        return answer((await self._session(request)).state())

    async def _history(self, request: Request) -> Response:
        """Return a part of the conversation as events without numbers, and the session's state."""
        from tools.registry import registry

        session = await self._session(request)
        before = number_of(request, "before", 0)
        limit = min(max(number_of(request, "limit", WINDOW), 1), 500)
        # Read the state first: later changes arrive again as events and are recognised by their node.
        state = session.state()
        nodes = await session.client.stored.before(session.id, before or None, limit)
        if nodes and nodes[0].kind == "tool":
            # The arguments of calls are in the message that made them.
            nodes = [*(await session.client.stored.before(session.id, nodes[0].id, 20)), *nodes]
            first = max((at for at, node in enumerate(nodes[:21]) if node.kind == "assistant"), default=0)
            nodes = nodes[first:]
        events = await asyncio.to_thread(lambda: [each.to_json() for each in past_events(nodes, registry)])
        more = bool(nodes) and nodes[0].parent is not None
        first = nodes[0].id if nodes else 0
        return answer({"events": events, "first": first, "more": more, "state": state})

    async def _events(self, request: Request) -> Response:
        session = await self._session(request)
        after = number_of(request, "after", 0)
        if "text/event-stream" in request.headers.get("accept", ""):
            last = request.headers.get("last-event-id", "")
            after = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else after
            return StreamingResponse(
                _as_stream(session, after), media_type="text/event-stream", headers=NO_STORE
            )
        wait = min(number_of(request, "wait", 0), WAIT)
        if wait:
            try:
                async with asyncio.timeout(wait):
                    await session.log.wait_for_events(after)
            except TimeoutError:
                pass
        lines = session.log.read(after, 8_000_000, PAGE)
        last = lines[-1][0] if lines else after
        body = ",".join(line for _, line in lines)
        more = "true" if last < session.log.last else "false"
        return Response(
            f'{{"events":[{body}],"last":{last},"more":{more},"gone":{session.log.gone}}}',
            media_type="application/json",
            headers=NO_STORE,
        )

    async def _canvas(self, request: Request) -> Response:
        """Return a document made by the agent as a page for an isolated frame without network access."""
        session, document = request.path_params["session"], request.path_params["document"]
        found = await asyncio.to_thread(CanvasDocuments(self._home.canvas).read, session, document)
        if found is None:
            raise RequestRefusedError(404, "There is no such canvas.")
        text = render_page(*found, "Canvas")
        return Response(text, media_type="text/html; charset=utf-8", headers=CANVAS)

    # Actions of clients

    async def _message(self, request: Request) -> Response:
        data = await json_body(request, ATTACHMENTS)
        session = await self._session(request)
        waits = await session.store_message(*await message_of(data, self._home))
        return answer({"queued": waits, "seq": session.log.last}, 202)

    async def _answer(self, request: Request) -> Response:
        data = await json_body(request)
        check_fields(data, "answer", "feedback")
        if "answer" not in data:
            raise RequestRefusedError(400, "`answer` is missing.")
        session = await self._session(request)
        feedback = text_of(data, "feedback", "", most=10_000)
        session.answer(request.path_params["request"], data["answer"], feedback, caller_of(request))
        return answer({"decided": True})

    async def _interrupt(self, request: Request) -> Response:
        await body_of(request, BODY)
        session = await self._session(request)
        session.client.interrupt()
        return answer({"busy": session.client.busy}, 202)

    async def _queue(self, request: Request) -> Response:
        """Send the messages that a stop left in the queue, or remove one of them; return the queue."""
        data = await json_body(request)
        check_fields(data, "send", "take_back")
        session = await self._session(request)
        if "take_back" in data:
            session.take_back(text_of(data, "take_back"))
        elif data.get("send") is True:
            session.client.send_queue()
        else:
            raise RequestRefusedError(400, "Write `send`: true, or `take_back` and the text of a message.")
        return answer({"queued": list(session.client.queue), "busy": session.client.busy}, 202)

    async def _command(self, request: Request) -> Response:
        data = await json_body(request)
        check_fields(data, "text")
        return answer(await run_command(self._hub, await self._session(request), text_of(data, "text")))

    async def _move(self, request: Request) -> Response:
        data = await json_body(request)
        check_fields(data, "to")
        where = text_of(data, "to", most=300)
        return answer({"told": await self._hub.move(await self._session(request), where)})

    async def _session(self, request: Request) -> HostedSession:
        return await self._hub.session(request.path_params["session"])


CANVAS = {
    **FENCES,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers that are sent with a document made by an agent."""
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def answer(data: Any, status: int = 200) -> JSONResponse:
    """Return a JSON response that must not be cached."""
    return JSONResponse(data, status, headers=NO_STORE)


def refusal_response(refusal: RequestRefusedError) -> Response:
    """Return the response for a refused request."""
    headers = {**NO_STORE, "Connection": "close"}
    if refusal.wait:
        headers["Retry-After"] = str(int(refusal.wait) + 1)
    return JSONResponse({"error": str(refusal)}, refusal.status, headers=headers)


def caller_of(request: Request) -> ClientIdentity:
    """Return the sender of a request, as stored by the access checks."""
    caller: ClientIdentity = request.scope["state"]["caller"]
    return caller


def number_of(request: Request, name: str, default: int) -> int:
    """Return a whole number from a request's query. Raises `RequestRefusedError` for another value."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise RequestRefusedError(400, f"`{name}` must be a whole number.")
    return int(value)


async def message_of(data: dict[str, Any], home: Home) -> tuple[str, Any, Sequence[Attachment]]:
    """Return text, delivery mode and stored images of a message. Raises `RequestRefusedError`."""
    check_fields(data, "text", "how", "images", "type", "ref")
    how = text_of(data, "how", "prompt", most=20)
    if how not in HOWS:
        raise RequestRefusedError(400, f"`how` must be one of {', '.join(HOWS)}.")
    images = data.get("images", [])
    if not isinstance(images, list) or len(images) > 10:
        raise RequestRefusedError(400, "`images` must be a list of at most ten.")
    kept = await asyncio.to_thread(store_images, images, AttachmentStore(home.attachments)) if images else ()
    return text_of(data, "text"), how, kept


def store_images(images: Sequence[Any], store: AttachmentStore) -> tuple[Attachment, ...]:
    """Store a message's images with `store` and return them as attachments. Blocking. Raises
    `RequestRefusedError`.
    """
    found: list[Attachment] = []
    with PrivateFolder("serve") as folder:
        for number, image in enumerate(images):
            if not isinstance(image, dict):
                raise RequestRefusedError(400, "An image is an object with `name` and `data` in base64.")
            name = Path(text_of(image, "name", "image", most=200)).name or "image"
            path = folder / str(number) / clean(name)
            try:
                path.parent.mkdir()
                path.write_bytes(base64.b64decode(text_of(image, "data", most=ATTACHMENTS), validate=True))
                found.append(store.take(path))
            except binascii.Error:
                raise RequestRefusedError(400, "The data of an image must be base64.") from None
            except (AttachmentError, OSError, ValueError) as error:
                raise RequestRefusedError(400, f"The image {clean(name)} cannot be taken: {error}") from error
    return tuple(found)


async def _as_stream(session: HostedSession, after: int) -> AsyncIterator[str]:
    """Yield server-sent events until the log is closed or the client disconnects."""
    while not session.log.closed:
        lines = session.log.read(after)
        if not lines:
            try:
                async with asyncio.timeout(15):
                    await session.log.wait_for_events(after)
            except TimeoutError:
                yield ": still here\n\n"
            continue
        yield "".join(f"id: {number}\ndata: {line}\n\n" for number, line in lines)
        after = lines[-1][0]


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_DARK, _LIGHT = "night", "paper"
"""The skins that `auto` stands for on a dark and on a light system."""


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of the page: it may load and run its own files, and nothing else."""


class PageFiles:
    """The routes of the web page. The page contains no secret; without a token it explains pairing."""

    def routes(self) -> list[Route]:
        """Return the HTTP routes of the page's files."""
        return [
            Route("/", self._page),
            Route("/sw.js", self._asset),
            Route("/manifest.webmanifest", self._asset),
            Route("/skins.css", self._skins),
            Route("/page.json", self._facts),
            Route("/assets/{name}", self._asset),
        ]

    async def _page(self, request: Request) -> Response:
        return self._answer(request, contents()["index.html"], ".html")

    async def _asset(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        data = contents().get(name)
        if data is None or name == "index.html":
            return Response('{"error": "There is nothing here."}', 404, media_type="application/json")
        return self._answer(request, data, name[name.rindex(".") :])

    async def _skins(self, request: Request) -> Response:
        return self._answer(request, skins(), ".css")

    async def _facts(self, _request: Request) -> Response:
        found = {"skins": [name for name in builtin_names() if name not in _TERMINAL]}
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(json.dumps(found), media_type="application/json", headers=headers)

    def _answer(self, request: Request, data: bytes, ending: str) -> Response:
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        headers = {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "ETag": tag,
        }
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            data = _compress(data)
        return Response(data, media_type=_TYPES[ending], headers=headers)


_TERMINAL = frozenset({"ansi"})
"""Skins that use the terminal's own colours, which a page cannot know."""


@lru_cache(1)
def contents() -> Mapping[str, bytes]:
    """Return the contents of the page's files, by name."""
    folder = files("app.service") / "page"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))}


@lru_cache(32)
def _compress(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


@lru_cache(1)
def skins() -> bytes:
    """Return the built-in skins as a style sheet with variables for their colours."""
    found = {name: load_skin(name).skin.colors for name in builtin_names() if name not in _TERMINAL}
    return "\n".join(_rules(found)).encode()


def _rules(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield f":root{{{_variables(found[_DARK])}}}"
    yield f"@media (prefers-color-scheme:light){{:root{{{_variables(found[_LIGHT])}}}}}"
    for name, colors in found.items():
        yield f':root[data-skin="{name}"]{{{_variables(colors)}}}'


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{color};" for role, color in sorted(colors.items()) if color.startswith("#"))
