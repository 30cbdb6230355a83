"""The service's interface for messengers: its sessions, and the HTTP routes that platforms call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agent.core.attachments import AttachmentStore
from agent.core.home import Home
from agent.core.messages import Attachment
from agent.core.store.store import Store
from agent.errors import HermesError
from agent.events import Asked, Event
from agent.integrations.gateways.adapter import CallAnswer, PlatformCall
from agent.integrations.gateways.running_gateway import AllGateways
from agent.session.wiring.voice_messages import transcribe
from app.service.bodies import ATTACHMENTS, body_of
from app.service.doors import HeadIdentity, TurnedAwayError
from app.service.hosted_session import HostedSession, SessionHub
from app.service.socket_head import word_kind

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.config.schema import Settings
    from agent.integrations.gateways.people import ChatScope
    from agent.integrations.gateways.ports import ChatSession, How, WordKind

CALLS = "/gateways/"
"""The path that platforms call; their requests are signed, and their adapter checks that."""


class GatewaySession:
    """One hosted session, in the form that chats use."""

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
        except TurnedAwayError as refusal:
            raise HermesError(str(refusal)) from refusal

    def answer(self, request: str, answer: str, who: str, scope: ChatScope, gateway: str) -> str:
        """Answer a request; return a sentence if the answer did not count, else an empty text."""
        name, _, address = who.partition(" at ")
        caller = HeadIdentity("", name, scope or "look", address, f"gateway.{gateway}")
        try:
            self.hosted.answer(request, answer, "", caller)
        except TurnedAwayError as refusal:
            return str(refusal)
        return ""

    async def kind_of_word(self, name: str) -> WordKind:
        """Return what `/name` is, for a name that is not a command of chats."""
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
    """The session hub, in the form that messengers use."""

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
        except TurnedAwayError as refusal:
            raise _reason(refusal) from refusal

    async def session(self, id: str, surface: str, model: str | None = None) -> GatewaySession:
        try:
            return GatewaySession(await self._hub.session(id, surface, model))
        except TurnedAwayError as refusal:
            raise _reason(refusal) from refusal

    async def reopen(self, id: str, surface: str, model: str) -> GatewaySession:
        try:
            return GatewaySession(await self._hub.reopen(id, model, surface))
        except TurnedAwayError as refusal:
            raise _reason(refusal) from refusal

    async def list_sessions(self) -> Sequence[Mapping[str, Any]]:
        try:
            return await self._hub.list_sessions()
        except TurnedAwayError as refusal:
            raise HermesError(str(refusal)) from refusal

    async def transcribe(self, data: bytes, name: str, session: ChatSession) -> str:
        import os

        assert isinstance(session, GatewaySession)
        from agent.core.config.loader import load

        loaded = load(self._home, dict(os.environ), Path.cwd())
        return await transcribe(session.client, loaded.settings, loaded.environ, data, name)

    def keep_image(self, data: bytes, name: str) -> Attachment:
        return self._attachments.keep(data, name)


def _reason(refusal: TurnedAwayError) -> HermesError:
    """Return a refusal as an error for chats, which retry if the store is busy, but not if a session is
    missing.
    """
    cause = refusal.__cause__
    return cause if isinstance(cause, HermesError) else HermesError(str(refusal))


class Messengers:
    """Starts, uses and closes the gateways of a service to messengers."""

    def __init__(self, hub: SessionHub, gateways: AllGateways, store: Store) -> None:
        self._hub = hub
        self.gateways = gateways
        self._store = store

    @classmethod
    async def start(
        cls, hub: SessionHub, home: Home, settings: Settings, environ: Mapping[str, str]
    ) -> Messengers:
        """Start the enabled gateways. Raises `StoreError`."""
        store = await Store.open(home.database)
        gateways = AllGateways(GatewayHost(hub, home, store), home, settings, environ, Path.cwd())
        hub.opened = lambda hosted: gateways.wake_session(GatewaySession(hosted))
        await gateways.start()
        return cls(hub, gateways, store)

    async def move(self, hosted: HostedSession, where: str) -> str:
        """Move a session to a chat, or away from chats; return the name of its new place. Raises
        `TurnedAwayError`.
        """
        try:
            return await self.gateways.move(GatewaySession(hosted), where)
        except HermesError as error:
            raise TurnedAwayError(409, str(error)) from error

    async def check_move(self, where: str) -> None:
        """Check that a session can move to a chat. Raises `TurnedAwayError`."""
        try:
            await self.gateways.destination(where)
        except HermesError as error:
            raise TurnedAwayError(409, str(error)) from error

    async def aclose(self) -> None:
        """Disconnect the platforms. Never raises."""
        self._hub.opened = lambda _session: None
        await self.gateways.aclose()
        await self._store.close()


def call_routes(gateways: Callable[[], AllGateways | None]) -> list[BaseRoute]:
    """Return the HTTP routes that messenger platforms call."""

    async def handle(request: Request) -> Response:
        running = gateways()
        try:
            body = await body_of(request, ATTACHMENTS)
        except TurnedAwayError as refusal:
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
