"""The environment server: episodes over HTTP and WebSocket in the format of OpenEnv (openenv-core 0.2.3).

Over HTTP `episode_id` names an episode; without it the newest one is used. Over WebSocket each connection has
its own episode. The agent of an episode requests its actions from the trainer under `/policy`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent.automation.training.episode import ActionError, Arena, Episode, completion_of, open_arena
from agent.core.messages import ModeName
from agent.errors import ConfigError, HermesError
from app.version import version
from tools.text.words import plural

MOST_BODY = 16_000_000
"""The largest number of bytes in the body of a request."""
_ACTION = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "tool_calls": {"type": "array", "items": {"type": "object"}},
        "message": {"type": "object"},
        "tokens": {"type": "object"},
    },
}
_OBSERVATION = {
    "type": "object",
    "properties": {
        "messages": {"type": "array"},
        "tools": {"type": "array"},
        "outcome": {"type": "string"},
        "text": {"type": "string"},
        "checks": {"type": "array"},
        "session": {"type": "string"},
    },
    "required": ["messages"],
}
_STATE = {
    "type": "object",
    "properties": {"episode_id": {"type": "string"}, "step_count": {"type": "integer"}},
}


def application(arena: Arena, name: str, token: str) -> ASGIApp:
    """Return the ASGI application of the server. Trainers must send `token`, agents the key of `arena`."""
    server = EnvironmentServer(arena, name)
    return TrainerGuard(Starlette(routes=server.routes()), token, arena.key)


class EnvironmentServer:
    """The request handlers for the episodes of an arena."""

    def __init__(self, arena: Arena, name: str) -> None:
        self._arena = arena
        self._name = name
        self._by_id: dict[str, Episode] = {}
        self._newest: Episode | None = None

    def routes(self) -> list[Any]:
        return [
            Route("/reset", self._json_handler(self._reset), methods=["POST"]),
            Route("/step", self._json_handler(self._step), methods=["POST"]),
            Route("/score", self._json_handler(self._score), methods=["POST"]),
            Route("/state", self._state, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metadata", self._metadata, methods=["GET"]),
            Route("/schema", self._schema, methods=["GET"]),
            Route("/policy/{number}/v1/chat/completions", self._policy, methods=["POST"]),
            WebSocketRoute("/ws", self._socket),
        ]

    def _json_handler(
        self, answer: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                return JSONResponse(await answer(await _body(request)))
            except ValueError as error:
                return JSONResponse({"detail": str(error)}, 422)
            except HermesError as error:
                return JSONResponse({"detail": str(error)}, 409)

        return handle

    async def _reset(self, given: Mapping[str, Any]) -> dict[str, Any]:
        name = str(given.get("episode_id") or "")
        episode = self._by_id.get(name) or (self._newest if not name else None)
        episode = episode or self._arena.episode()
        observed = await episode.reset(given)
        self._by_id = {key: each for key, each in self._by_id.items() if each is not episode}
        self._by_id[episode.state.episode_id] = episode
        self._newest = episode
        return observed.to_json()

    async def _step(self, given: Mapping[str, Any]) -> dict[str, Any]:
        action = given.get("action")
        if not isinstance(action, Mapping):
            raise ValueError("`action` has to be an object")  # noqa: TRY004 - it is one of the body
        return (await self._find_episode(given).step(action)).to_json()

    def _find_episode(self, given: Mapping[str, Any]) -> Episode:
        name = given.get("episode_id")
        episode = self._by_id.get(str(name)) if name else self._newest
        if episode is None:
            raise ActionError("There is no such episode; reset first.")
        return episode

    async def _score(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return await self._arena.score(str(given.get("session", "")))

    async def _state(self, request: Request) -> Response:
        name = request.query_params.get("episode_id", "")
        episode = self._by_id.get(name) if name else self._newest
        state = asdict(episode.state) if episode is not None else {"episode_id": None, "step_count": 0}
        return JSONResponse(state)

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "healthy"})

    async def _metadata(self, _request: Request) -> Response:
        tasks = len(self._arena.tasks)
        about = f"{plural(tasks, 'task')} worked on with the tools of Hermes"
        told = {"name": self._name, "description": about}
        return JSONResponse({**told, "version": version()})

    async def _schema(self, _request: Request) -> Response:
        return JSONResponse({"action": _ACTION, "observation": _OBSERVATION, "state": _STATE})

    async def _policy(self, request: Request) -> Response:
        episode = self._arena.episodes.get(request.path_params["number"])
        if episode is None:
            return JSONResponse({"error": {"message": "There is no such episode."}}, 404)
        return JSONResponse(completion_of(await episode.ask(await _body(request))))

    async def _socket(self, socket: WebSocket) -> None:
        await socket.accept()
        try:
            episode = self._arena.episode()
        except HermesError as error:
            await _send(socket, "error", {"message": str(error), "code": "CAPACITY_REACHED"})
            await socket.close()
            return
        try:
            while await self._answer_message(socket, episode, await _message(socket)):
                pass
            await socket.close()
        except WebSocketDisconnect:
            pass
        finally:
            await self._arena.leave(episode)

    async def _answer_message(self, socket: WebSocket, episode: Episode, text: str | bytes) -> bool:
        """Handle one message and send the answer; return False if the client closes the connection."""
        try:
            given = _parse_json(text)
        except (ValueError, RecursionError) as error:
            await _send(socket, "error", {"message": f"Invalid JSON: {error}", "code": "INVALID_JSON"})
            return True
        kind = given.get("type") if isinstance(given, dict) else None
        data = given.get("data", {}) if isinstance(given, dict) else {}
        try:
            match kind:
                case "close":
                    return False
                case "state":
                    await _send(socket, "state", asdict(episode.state))
                case "reset" | "step" if not isinstance(data, dict):
                    await _send(
                        socket, "error", {"message": "`data` has to be an object", "code": "VALIDATION_ERROR"}
                    )
                case "reset":
                    await _send(socket, "observation", (await episode.reset(data)).to_json())
                case "step":
                    await _send(socket, "observation", (await episode.step(data)).to_json())
                case _:
                    told = {"message": f"Unknown message type: {str(kind)[:80]}", "code": "UNKNOWN_TYPE"}
                    await _send(socket, "error", told)
        except HermesError as error:
            await _send(socket, "error", {"message": str(error), "code": "EXECUTION_ERROR"})
        return True


class TrainerGuard:
    """Admits requests with `token` in `Authorization`, as Bearer or as the password of Basic.

    Paths below `/policy/` need `policy_key` instead, and `/health` needs nothing. Requests with an `Origin`
    header or with a host name other than this machine's are refused, as a web page may have sent them.
    """

    def __init__(self, app: ASGIApp, token: str, policy_key: str) -> None:
        self._app = app
        self._token = token
        self._policy_key = policy_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if self._is_refused(scope, headers):
            await _refuse(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_refused(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        if host.lower() not in ("127.0.0.1", "localhost", "[::1]") or "origin" in headers:
            return True
        path = scope["path"]
        if path == "/health":
            return False
        needed = self._policy_key if path.startswith("/policy/") else self._token
        return not hmac.compare_digest(_token_of(headers.get("authorization", "")).encode(), needed.encode())


def _token_of(authorization: str) -> str:
    """Return the token in an `Authorization` header; empty if there is none."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode("utf-8").partition(":")[2]
        except ValueError:
            return ""
    return ""


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "A token is needed."})
        return
    await JSONResponse({"detail": "A token is needed, in the header Authorization."}, 401)(
        scope, receive, send
    )


async def _body(request: Request) -> Mapping[str, Any]:
    """Return the request's JSON body; an empty object without a body. Raises `ValueError`."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_BODY:
            raise ValueError("the body is too large")
    try:
        given = _parse_json(content) if content.strip() else {}
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(given, dict):
        raise ValueError("the body has to be a JSON object")  # noqa: TRY004 - as for any other fault
    return given


def _parse_json(text: str | bytes) -> Any:
    """Parse a trainer's JSON. Raises `ValueError`, also for a lone surrogate, and `RecursionError`."""
    given = json.loads(text)
    json.dumps(given, ensure_ascii=False).encode()
    return given


async def _message(socket: WebSocket) -> str | bytes:
    """Receive the next message, text or bytes. Raises `WebSocketDisconnect`."""
    given = await socket.receive()
    if given["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(given.get("code", 1000))
    text: str | None = given.get("text")
    content: bytes = given.get("bytes") or b""
    return content if text is None else text


async def _send(socket: WebSocket, kind: str, data: Mapping[str, Any]) -> None:
    await socket.send_text(json.dumps({"type": kind, "data": dict(data)}))


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling."""

    listens: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_environment(
    where: str,
    folder: Path,
    environ: Mapping[str, str],
    *,
    port: int,
    token: str,
    approve: ModeName | None,
    ready: Callable[[str], None],
) -> None:
    """Serve on a loopback address until a signal arrives; `ready` gets the address. Raises `HermesError`."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise ConfigError(f"Port {port} cannot be used: {error.strerror}; choose another.") from error
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        arena = await asyncio.to_thread(
            open_arena, where, folder, environ, address, secrets.token_urlsafe(24), approve
        )
    except BaseException:
        listening.close()
        raise
    config = uvicorn.Config(
        application(arena, where, token),
        loop="asyncio",
        ws="websockets-sansio",
        ws_max_size=MOST_BODY,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    server.listens = lambda: ready(address)
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    asked = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([serving, asked], return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        await arena.aclose()
        server.should_exit = True
        await serving
