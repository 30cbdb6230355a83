"""The running service: its sockets, its lock in the home, startup and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from agent.core.attachments import AttachmentStore
from agent.core.config.loader import load
from agent.core.home import Home, private_folder
from agent.errors import ConfigError
from agent.integrations.gateways.running_gateway import AllGateways
from app.running_service import ServicePlace
from app.service.credentials import Credentials
from app.service.doors import Address, Doors, GuardedProtocol, TurnedAwayError
from app.service.gateway_host import CALLS, Messengers, call_routes
from app.service.hosted_session import SessionHub
from app.service.openai_api import OpenAiApi, refusal_of
from app.service.routes import PageFiles, Routes, refusal_response
from app.service.socket_head import FRAME
from app.service.terminal_heads import TerminalHeads

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 3
"""Seconds that requests under way have when the service ends."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of `hermes serve` on the command line."""

    host: str
    port: int
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    model: str | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.cert else "http"


async def run_service(options: ServiceOptions, home: Home, ready: Callable[[str], None]) -> None:
    """Serve until a signal arrives. `ready` is called with the address. Raises `HermesError`."""
    _check(options)
    private_folder(home.root)
    folder = private_folder(home.root / "serve")
    loaded = load(home, dict(os.environ), Path.cwd())
    settings = loaded.settings
    calls: list[AllGateways] = []
    with ServicePlace(folder) as place, _listening(options) as listening:
        port = listening.getsockname()[1]
        url = f"{options.scheme}://{_url_host(options.host)}:{port}"
        hosts = frozenset(each.lower() for each in settings.serve.hosts)
        address = Address(options.scheme, options.host.strip("[]").lower(), port, hosts)
        hub = SessionHub(home, options.model)
        credentials = Credentials(folder)
        app = application(
            hub,
            credentials,
            home,
            address,
            openai_api(hub, home, settings.serve.approval_timeout),
            call_routes(lambda: calls[0] if calls else None),
        )
        server = _server(app, options)
        place.note(url=url, pid=os.getpid())
        # Before any session opens: this imports libraries that must not be imported during a request.
        messengers = await Messengers.start(hub, home, loaded.settings, loaded.environ)
        terminals = TerminalHeads(hub, home)
        await terminals.listen()
        calls.append(messengers.gateways)
        hub.mover, hub.move_checker = messengers.move, messengers.check_move
        loop = asyncio.get_running_loop()
        ending = asyncio.Event()
        for number in SIGNALS:
            loop.add_signal_handler(number, ending.set)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="serve")
        asked = asyncio.create_task(ending.wait())
        try:
            server.listens = lambda: ready(url)
            await asyncio.wait([serving, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            # Close messengers first: they would report stopped turns to the chats.
            await messengers.aclose()
            await terminals.aclose()
            await hub.aclose()
            server.should_exit = True
            await serving


def openai_api(hub: SessionHub, home: Home, timeout: float) -> OpenAiApi:
    """Return the OpenAI-compatible endpoints. Their sessions use the folder in which the service was
    started.
    """

    def models() -> list[str]:
        from agent.model.model_choices import choices

        loaded = load(home, dict(os.environ), here)
        return [each.name for each in choices(loaded.settings, loaded.environ, home) if not each.problem]

    here = Path.cwd()
    return OpenAiApi(hub, here, models, timeout, AttachmentStore(home.attachments))


def application(
    hub: SessionHub,
    credentials: Credentials,
    home: Home,
    address: Address,
    openai: OpenAiApi,
    further: Sequence[BaseRoute] = (),
) -> Any:
    """Return the whole application with its access checks in front."""
    routes = Routes(hub, credentials, home, address)
    app = Starlette(
        routes=[*routes.routes(), *openai.routes(), *further, *PageFiles().routes()],
        exception_handlers={404: _missing, 405: _missing},
    )
    return Doors(app, credentials, address, open_to_all)


def open_to_all(method: str, path: str) -> bool:
    """Return whether a request needs no token. That holds for pairing and for the page without data. Pure."""
    if path == "/api/pair":
        return method == "POST"
    if path.startswith(CALLS):
        # Signed by the platform, which its adapter checks.
        return method in ("GET", "POST")
    return method in ("GET", "HEAD") and not path.startswith(("/api/", "/v1/"))


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    sentence = "There is nothing here." if status == 404 else "Not in this way."
    if request.url.path.startswith("/v1/"):
        return refusal_of(status, sentence)
    return refusal_response(TurnedAwayError(status, sentence))


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling."""

    listens: Callable[[], None] | None = None
    """Told once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then report it."""
        await super().startup(sockets)
        if self.listens is not None:
            self.listens()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(app: Any, options: ServiceOptions) -> _Server:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=GuardedProtocol,
        ws="websockets-sansio",
        ws_max_size=FRAME,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=20_000,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=options.cert,
        ssl_keyfile=options.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"Certificate and key cannot be used: {error}; see --tls-cert and --tls-key."
        ) from error
    return _Server(config)


def _check(options: ServiceOptions) -> None:
    if bool(options.cert) != bool(options.key):
        raise ConfigError("--tls-cert and --tls-key belong together; give both.")
    for path in (options.cert, options.key):
        if path and not Path(path).is_file():
            raise ConfigError(f"There is no file {path}; see --tls-cert and --tls-key.")
    if not (is_loopback(options.host) or options.cert or options.insecure):
        raise ConfigError(
            f"Others could read along on {options.host}: give --tls-cert and --tls-key, or say --insecure."
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. Pure."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _url_host(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host


@contextlib.contextmanager
def _listening(options: ServiceOptions) -> Iterator[socket.socket]:
    host = options.host.strip("[]")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"{options.host} is not an address of this machine; see --host.") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.set_inheritable(False)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"{options.host} is not an address of this machine; see --host.") from error
        taken = error.errno == errno.EADDRINUSE
        why = "is taken by another program" if taken else f"cannot be used: {error.strerror}"
        raise ConfigError(f"Port {options.port} of {options.host} {why}; see --port.") from error
    with listening:
        yield listening
