"""The running service: its sockets, its lock in the home, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agent.api.child import EngineServer
from agent.api.remote import Outlet, WireError
from agent.core.attachments import AttachmentStore
from agent.core.config.loader import load
from agent.core.home import Home, private_folder
from agent.core.messages import Attachment
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.events import Asked, EffortChanged, Event, Noticed, Reply, TurnStarted
from agent.integrations.gateways.adapter import CallAnswer, PlatformCall
from agent.integrations.gateways.running_gateway import AllGateways
from agent.session.wiring.voice_messages import transcribe
from app.running_service import ServicePlace
from app.service.credentials import Credentials
from app.service.doors import (
    ATTACHMENTS,
    AccessChecks,
    Address,
    ClientIdentity,
    GuardedProtocol,
    RequestRefusedError,
    body_of,
)
from app.service.hosted_session import HostedSession, SessionHub
from app.service.openai_api import OpenAiApi, refusal_of
from app.service.routes import FRAME, PageFiles, Routes, refusal_response, word_kind

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.config.schema import Settings
    from agent.integrations.gateways.people import ChatScope
    from agent.integrations.gateways.ports import ChatSession, How, WordKind

CALLS = "/gateways/"
"""The path below which messenger platforms send requests; their adapters verify the signatures."""


class GatewaySession:
    """A hosted session with the interface that chats use."""

    def __init__(self, hosted: HostedSession) -> None:
        self.hosted = hosted

    @property
    def id(self) -> str:
        return self.hosted.id

    @property
    def title(self) -> str:
        return self.hosted.title

    @property
    def client(self) -> SessionClient:
        return self.hosted.client

    @property
    def pending(self) -> tuple[Asked, ...]:
        return self.hosted.pending

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        return self.hosted.subscribe(listener)

    def message(self, text: str, how: How, attachments: Sequence[Attachment], received: int) -> None:
        """Send a message to the session. Raises `HermesError`."""
        try:
            self.hosted.message(text, how, attachments, received)
        except RequestRefusedError as refusal:
            raise HermesError(str(refusal)) from refusal

    def answer(self, request: str, answer: str, who: str, scope: ChatScope, gateway: str) -> str:
        """Answer a request; return the reason if the answer was not accepted, else ""."""
        name, _, address = who.partition(" at ")
        caller = ClientIdentity("", name, scope or "look", address, f"gateway.{gateway}")
        try:
            self.hosted.answer(request, answer, "", caller)
        except RequestRefusedError as refusal:
            return str(refusal)
        return ""

    async def kind_of_word(self, name: str) -> WordKind:
        """Return the kind of `/name`, which is not a command of chats; "" if it is unknown."""
        return await word_kind(self.client, name)

    async def run_plugin(self, name: str, rest: str) -> str:
        """Run a plugin's command and return its output. Raises `HermesError`."""
        return await self.client.plugins.run(name, rest)

    def expire(self, request: str) -> None:
        """Resolve a request as expired, because it was not answered in time."""
        asked = next((each for each in self.pending if each.id == request), None)
        if asked is not None:
            self.hosted.decide(request, asked.unattended, "nobody (in time)")


class GatewayHost:
    """The session hub with the interface that messengers use."""

    def __init__(self, hub: SessionHub, home: Home, store: Store) -> None:
        """`store` must stay open as long as the gateways run."""
        self._hub = hub
        self._home = home
        self._store = store
        self._attachments = AttachmentStore(home.attachments)

    @property
    def database(self) -> Any:
        return self._store.database

    async def create(self, workspace: str, surface: str, model: str | None = None) -> GatewaySession:
        try:
            return GatewaySession(await self._hub.create(workspace, model, surface))
        except RequestRefusedError as refusal:
            raise _reason(refusal) from refusal

    async def session(self, id: str, surface: str, model: str | None = None) -> GatewaySession:
        try:
            return GatewaySession(await self._hub.session(id, surface, model))
        except RequestRefusedError as refusal:
            raise _reason(refusal) from refusal

    async def reopen(self, id: str, surface: str, model: str) -> GatewaySession:
        try:
            return GatewaySession(await self._hub.reopen(id, model, surface))
        except RequestRefusedError as refusal:
            raise _reason(refusal) from refusal

    async def list_sessions(self) -> Sequence[Mapping[str, Any]]:
        try:
            return await self._hub.list_sessions()
        except RequestRefusedError as refusal:
            raise HermesError(str(refusal)) from refusal

    async def transcribe(self, data: bytes, name: str, session: ChatSession) -> str:
        import os

        assert isinstance(session, GatewaySession)
        from agent.core.config.loader import load

        loaded = load(self._home, dict(os.environ), Path.cwd())
        return await transcribe(session.client, loaded.settings, loaded.environ, data, name)

    def keep_image(self, data: bytes, name: str) -> Attachment:
        return self._attachments.keep(data, name)


def _reason(refusal: RequestRefusedError) -> HermesError:
    """Return a refusal as an error for chats. The store's own error is kept, as chats retry if it is busy."""
    cause = refusal.__cause__
    return cause if isinstance(cause, HermesError) else HermesError(str(refusal))


class Messengers:
    """Starts, uses and closes the connections of a service to messengers."""

    def __init__(self, hub: SessionHub, gateways: AllGateways, store: Store) -> None:
        self._hub = hub
        self.gateways = gateways
        self._store = store

    @classmethod
    async def start(
        cls, hub: SessionHub, home: Home, settings: Settings, environ: Mapping[str, str]
    ) -> Messengers:
        """Start the enabled messengers. Raises `StoreError`."""
        store = await Store.open(home.database)
        try:
            gateways = AllGateways(GatewayHost(hub, home, store), home, settings, environ, Path.cwd())
            hub.opened = lambda hosted: gateways.wake_session(GatewaySession(hosted))
            await gateways.start()
        except BaseException:
            await store.close()
            raise
        return cls(hub, gateways, store)

    async def move(self, hosted: HostedSession, where: str) -> str:
        """Move a session to a chat or away from chats; return its new place. Raises `RequestRefusedError`."""
        try:
            return await self.gateways.move(GatewaySession(hosted), where)
        except HermesError as error:
            raise RequestRefusedError(409, str(error)) from error

    async def check_move(self, where: str) -> None:
        """Check that a session can move to a chat. Raises `RequestRefusedError`."""
        try:
            await self.gateways.destination(where)
        except HermesError as error:
            raise RequestRefusedError(409, str(error)) from error

    async def aclose(self) -> None:
        """Disconnect all messengers. Never raises."""
        self._hub.opened = lambda _session: None
        await self.gateways.aclose()
        await self._store.close()


def call_routes(gateways: Callable[[], AllGateways | None]) -> list[BaseRoute]:
    """Return the HTTP routes that messenger platforms call."""

    async def handle(request: Request) -> Response:
        running = gateways()
        try:
            body = await body_of(request, ATTACHMENTS)
        except RequestRefusedError as refusal:
            return Response(str(refusal), refusal.status)
        call = PlatformCall(
            request.method,
            request.path_params.get("path", ""),
            {name.lower(): value for name, value in request.headers.items()},
            dict(request.query_params),
            body,
        )
        answer = CallAnswer(404)
        if running is not None:
            try:
                answer = await running.hook(request.path_params["name"], call)
            except HermesError as error:
                # The platform sends it again.
                answer = CallAnswer(503, str(error).encode())
        return Response(answer.body, answer.status, media_type=answer.media_type)

    methods = ["GET", "POST"]
    return [
        Route(CALLS + "{name}", handle, methods=methods),
        Route(CALLS + "{name}/{path:path}", handle, methods=methods),
    ]


log = logging.getLogger(__name__)

MOST = 64_000_000
"""The number of bytes that may wait for a terminal that does not read, before it is disconnected."""


class TerminalServer:
    """Accepts connections on the socket, and serves the terminals that are attached through it."""

    def __init__(self, hub: SessionHub, home: Home) -> None:
        self._hub = hub
        self._home = home
        self._server: asyncio.Server | None = None
        self._heads: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Start accepting terminals; if the socket cannot be opened, only log it. Raises `HermesError`."""
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
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, backlog=16)

    async def aclose(self) -> None:
        """Disconnect every terminal."""
        if self._server is not None:
            self._server.close()
            self._home.service_socket.unlink(missing_ok=True)
        for each in self._heads:
            each.cancel()
        await asyncio.gather(*self._heads, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._heads.add(task)
        task.add_done_callback(self._heads.discard)
        connection = writer.get_extra_info("socket")
        outlet = _TerminalOutlet(connection.dup())
        client = _TerminalClient(outlet, self._hub, _identity(connection))
        try:
            await client.serve(reader)
        except WireError:
            log.exception("a terminal sent what cannot be read")
        finally:
            await client.aclose()
            outlet.finish()
            writer.close()


def _identity(connection: socket.socket) -> ClientIdentity:
    """Return an identity with the process at the other end, as the operating system reports it."""
    pid = 0
    if hasattr(socket, "SO_PEERCRED"):
        pid = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
    return ClientIdentity("", f"process {pid}", "approve", "this machine", "terminal")


class _TerminalOutlet(Outlet):
    """A connection to a terminal that is never waited for, because other clients share the sessions."""

    def send(self, frame: Mapping[str, Any]) -> None:
        """Queue a frame. A terminal that stops reading is disconnected."""
        if self.broken:
            return
        self.queue(frame)
        if self.waiting > MOST:
            log.warning("a terminal that does not read was let go")
            self.drop()

    def finish(self) -> None:
        """Close the connection; frames that were not sent are lost."""
        self.drop()


class _AttachedSession:
    """A hosted session for one terminal. Answers carry the terminal's name, and closing only detaches it."""

    def __init__(self, session: HostedSession, identity: ClientIdentity) -> None:
        self.session = session
        self._identity = identity
        self.leave: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session.client, name)

    def answer(self, request: str, reply: Reply) -> None:
        """Reply to a request, unless another client has already replied."""
        named = replace(cast("Any", reply), by=str(self._identity)) if hasattr(reply, "by") else reply
        self.session.decide(request, named, str(self._identity))

    async def aclose(self) -> None:
        """Unsubscribe from the session."""
        self.leave()


class _TerminalClient(EngineServer):
    """Serves one attached terminal. Its session may be shared with other clients."""

    def __init__(self, outlet: Outlet, hub: SessionHub, identity: ClientIdentity) -> None:
        super().__init__(outlet)
        self._hub = hub
        self._identity = identity

    async def _open(self, options: Any, environ: dict[str, str] | None, preview: bool) -> dict[str, str]:
        try:
            session = await self._find_session(options)
        except RequestRefusedError as refusal:
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
        """Send the events of a session to the terminal; when it is reopened with another model, those of the
        new one.
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
        """Handle a frame as an engine does; `move` and `check_move` are accepted, too, without an open
        session.

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
        except RequestRefusedError as refusal:
            raise HermesError(str(refusal)) from refusal

    async def _check_move(self, where: str) -> None:
        try:
            await self._hub.check_move(where)
        except RequestRefusedError as refusal:
            raise HermesError(str(refusal)) from refusal

    async def _find_session(self, options: Any) -> HostedSession:
        if options.resume is not None:
            return await self._hub.find_session(options.resume, options.model)
        if options.resume_last and (opened := self._hub.sessions):
            return max(opened, key=lambda each: each.used)
        return await self._hub.create(os.fspath(options.workspace), options.model)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 3
"""Seconds that running requests get when the service ends."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of `hermes serve`."""

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
    """Serve until a signal arrives. `ready` is called with the URL. Raises `HermesError`."""
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
        terminals = TerminalServer(hub, home)
        calls.append(messengers.gateways)
        hub.mover, hub.move_checker = messengers.move, messengers.check_move
        loop = asyncio.get_running_loop()
        ending = asyncio.Event()
        for number in SIGNALS:
            loop.add_signal_handler(number, ending.set)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="serve")
        asked = asyncio.create_task(ending.wait())
        try:
            await terminals.listen()
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
    """Return the OpenAI-compatible endpoints, with the current folder for their sessions."""

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
    """Return the whole ASGI application behind its access checks."""
    routes = Routes(hub, credentials, home, address)
    app = Starlette(
        routes=[*routes.routes(), *openai.routes(), *further, *PageFiles().routes()],
        exception_handlers={404: _missing, 405: _missing},
    )
    return AccessChecks(app, credentials, address, open_to_all)


def open_to_all(method: str, path: str) -> bool:
    """Return whether a request needs no token: pairing, the page without data, paths below `CALLS`. Pure."""
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
    return refusal_response(RequestRefusedError(status, sentence))


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling."""

    listens: Callable[[], None] | None = None
    """Called once the server listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then call `listens`."""
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
