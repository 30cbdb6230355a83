"""The HTTP interface of sessions. Access is checked before, in `doors`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute

from agent.core.attachments import AttachmentError, AttachmentStore
from agent.core.home import Home
from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.knowledge.canvas.documents import FENCES, CanvasDocuments, render_page
from app.service.bodies import ATTACHMENTS, BODY, body_of, json_body, only, text_of
from app.service.credentials import Credentials, Lockout, Scope, WrongCodeError
from app.service.doors import Address, HeadIdentity, TurnedAwayError
from app.service.hosted_session import HostedSession, SessionHub
from app.service.retelling import past_events
from app.service.socket_head import SocketHead, listed_commands, run_command
from themes.loader import builtin_names, load_skin
from tools.text.safe_text import clean

PAGE = 5_000
"""Events of one answer that is not a stream."""
WINDOW = 100
"""Messages of one window of a conversation."""
WAIT = 55.0
"""Seconds a request waits for an event at most."""
YEAR = 365 * 86_400
HOWS = ("prompt", "queue", "steer")

Handler = Callable[[Request], Awaitable[Response]]


class Routes:
    """Every path of the interface, with the scope it requires."""

    def __init__(self, hub: SessionHub, credentials: Credentials, home: Home, address: Address) -> None:
        self._hub = hub
        self._credentials = credentials
        self._home = home
        self._address = address
        self._wrong_codes = Lockout(10, 60)
        self.heads = SocketHead(hub, credentials)
        self.heads.read_message = partial(message_of, home=home)

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
            WebSocketRoute(f"{one}/ws", self.heads),
        ]

    def _with_refusals(self, handler: Handler, scope: Scope | None = None) -> Handler:
        async def handle(request: Request) -> Response:
            try:
                if scope is not None and not caller_of(request).may(scope):
                    raise TurnedAwayError(403, f"This device may not {scope}.")
                return await handler(request)
            except TurnedAwayError as refusal:
                return refusal_response(refusal)
            except HermesError as error:
                return refusal_response(TurnedAwayError(409, str(error)))

        return handle

    # Pairing

    async def _pair(self, request: Request) -> Response:
        data = await json_body(request, 10_000)
        only(data, "code", "name", "cookie")
        code, name = text_of(data, "code", most=100), text_of(data, "name", "", most=200)
        address = request.client.host if request.client else ""
        try:
            token, device = await asyncio.to_thread(self._credentials.pair, code, name, address)
        except WrongCodeError as error:
            letters = "".join(each for each in code.upper() if each.isalnum())
            if wait := self._wrong_codes.fault(letters[:4]):
                raise TurnedAwayError(429, "Too many wrong codes; wait a little.", wait) from error
            raise TurnedAwayError(403, str(error)) from error
        told = {"device": device.id, "name": device.name, "scope": device.scope}
        if data.get("cookie") is not True:
            return answer({"token": token, **told})
        response = answer(told)
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
        told = {"device": caller.device, "name": caller.name, "scope": caller.scope}
        return answer({**told, "workspace": self._hub.workspace, "commands": listed_commands()})

    # Sessions

    async def _list(self, _request: Request) -> Response:
        return answer({"sessions": await self._hub.list_sessions()})

    async def _create(self, request: Request) -> Response:
        data = await json_body(request)
        only(data, "workspace", "model")
        model = text_of(data, "model", "", most=200)
        workspace = text_of(data, "workspace", "", most=4_096) or self._hub.workspace
        session = await self._hub.create(workspace, model or None)
        return answer({"session": session.id}, 201)

    async def _state(self, request: Request) -> Response:
        return answer((await self._session(request)).state())

    async def _history(self, request: Request) -> Response:
        """Return a part of the conversation as events without numbers, and the state after them."""
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
                    await session.log.news(after)
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
        """Return a document of the agent, to be shown in an isolated frame without network access."""
        session, document = request.path_params["session"], request.path_params["document"]
        found = await asyncio.to_thread(CanvasDocuments(self._home.canvas).read, session, document)
        if found is None:
            raise TurnedAwayError(404, "There is no such canvas.")
        text = render_page(*found, "Canvas")
        return Response(text, media_type="text/html; charset=utf-8", headers=CANVAS)

    # Actions of heads

    async def _message(self, request: Request) -> Response:
        data = await json_body(request, ATTACHMENTS)
        session = await self._session(request)
        waits = await session.store_message(*await message_of(data, self._home))
        return answer({"queued": waits, "seq": session.log.last}, 202)

    async def _answer(self, request: Request) -> Response:
        data = await json_body(request)
        only(data, "answer", "feedback")
        if "answer" not in data:
            raise TurnedAwayError(400, "`answer` is missing.")
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
        """Send the messages that a stop left in the queue, or remove one of them."""
        data = await json_body(request)
        only(data, "send", "take_back")
        session = await self._session(request)
        if "take_back" in data:
            session.take_back(text_of(data, "take_back"))
        elif data.get("send") is True:
            session.client.send_queue()
        else:
            raise TurnedAwayError(400, "Write `send`: true, or `take_back` and the text of a message.")
        return answer({"queued": list(session.client.queue), "busy": session.client.busy}, 202)

    async def _command(self, request: Request) -> Response:
        data = await json_body(request)
        only(data, "text")
        return answer(await run_command(self._hub, await self._session(request), text_of(data, "text")))

    async def _move(self, request: Request) -> Response:
        data = await json_body(request)
        only(data, "to")
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
"""The headers that are sent with a document of an agent."""
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def answer(data: Any, status: int = 200) -> JSONResponse:
    """Return a JSON response that is never cached."""
    return JSONResponse(data, status, headers=NO_STORE)


def refusal_response(refusal: TurnedAwayError) -> Response:
    """Return the response for a refused request."""
    headers = {**NO_STORE, "Connection": "close"}
    if refusal.wait:
        headers["Retry-After"] = str(int(refusal.wait) + 1)
    return JSONResponse({"error": str(refusal)}, refusal.status, headers=headers)


def caller_of(request: Request) -> HeadIdentity:
    """Return the sender of a request, which the access checks have stored."""
    caller: HeadIdentity = request.scope["state"]["caller"]
    return caller


def number_of(request: Request, name: str, default: int) -> int:
    """Return a whole number from the query of a request. Raises `TurnedAwayError` if it is not one."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise TurnedAwayError(400, f"`{name}` must be a whole number.")
    return int(value)


async def message_of(data: dict[str, Any], home: Home) -> tuple[str, Any, Sequence[Attachment]]:
    """Return text, delivery mode and images of a message in a request. Raises `TurnedAwayError`."""
    only(data, "text", "how", "images", "type", "ref")
    how = text_of(data, "how", "prompt", most=20)
    if how not in HOWS:
        raise TurnedAwayError(400, f"`how` must be one of {', '.join(HOWS)}.")
    images = data.get("images", [])
    if not isinstance(images, list) or len(images) > 10:
        raise TurnedAwayError(400, "`images` must be a list of at most ten.")
    kept = await asyncio.to_thread(kept_images, images, AttachmentStore(home.attachments)) if images else ()
    return text_of(data, "text"), how, kept


def kept_images(images: Sequence[Any], store: AttachmentStore) -> tuple[Attachment, ...]:
    """Store a message's images in the home and return them as attachments. Blocking. Raises
    `TurnedAwayError`.
    """
    found: list[Attachment] = []
    with tempfile.TemporaryDirectory(prefix="hermes-serve-") as folder:
        for number, image in enumerate(images):
            if not isinstance(image, dict):
                raise TurnedAwayError(400, "An image is an object with `name` and `data` in base64.")
            name = Path(text_of(image, "name", "image", most=200)).name or "image"
            path = Path(folder) / str(number) / clean(name)
            try:
                path.parent.mkdir()
                path.write_bytes(base64.b64decode(text_of(image, "data", most=ATTACHMENTS), validate=True))
                found.append(store.take(path))
            except binascii.Error:
                raise TurnedAwayError(400, "The data of an image must be base64.") from None
            except (AttachmentError, OSError, ValueError) as error:
                raise TurnedAwayError(400, f"The image {clean(name)} cannot be taken: {error}") from error
    return tuple(found)


async def _as_stream(session: HostedSession, after: int) -> AsyncIterator[str]:
    """Yield server-sent events until the log is closed or the client disconnects."""
    while not session.log.closed:
        lines = session.log.read(after)
        if not lines:
            try:
                async with asyncio.timeout(15):
                    await session.log.news(after)
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
"""The skins that `auto` puts on, by the look of the system."""


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may do: run and fetch its own files, and nothing else."""


class PageFiles:
    """Routes of the web page. The page contains no secret; without a token it explains pairing."""

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
"""Skins of the terminal's own colours, which a page does not know."""


@lru_cache(1)
def contents() -> Mapping[str, bytes]:
    """Return the files of the page, by name."""
    folder = files("app.service") / "page"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))}


@lru_cache(32)
def _compress(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


@lru_cache(1)
def skins() -> bytes:
    """Return the skins of the terminal as variables of a style sheet."""
    found = {name: load_skin(name).skin.colors for name in builtin_names() if name not in _TERMINAL}
    return "\n".join(_rules(found)).encode()


def _rules(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield f":root{{{_variables(found[_DARK])}}}"
    yield f"@media (prefers-color-scheme:light){{:root{{{_variables(found[_LIGHT])}}}}}"
    for name, colors in found.items():
        yield f':root[data-skin="{name}"]{{{_variables(colors)}}}'


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{color};" for role, color in sorted(colors.items()) if color.startswith("#"))
