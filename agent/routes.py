"""From configured models to routes that can be asked: clients, codecs, the local server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.context.profile import STANDARD, Profile
from agent.errors import ConfigError, HermesError, ModelError
from agent.events import Event, Noticed
from agent.home import Home
from agent.model.codecs import codec_for
from agent.model.protocol import Delta, ModelClient, Request, ToolSpec
from agent.model.providers import NoModelError, Target, resolve
from agent.model.transport.reply import Route
from agent.model.usage import Meter

if TYPE_CHECKING:
    from agent.config.schema import Settings
    from agent.model.local.server import LocalServer
    from agent.safety.adviser import Adviser

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """Which models will be asked, in order, and how the first one is spoken to."""

    targets: tuple[Target, ...]
    profile: Profile
    meter: Meter
    side: Target | None = None
    """The side model of the smart mode."""
    problem: str = ""
    """Why there is none although one is wanted."""

    @property
    def all(self) -> tuple[Target, ...]:
        """Every model that may be asked."""
        return self.targets if self.side is None else (*self.targets, self.side)


async def plan_routes(settings: Settings, environ: Mapping[str, str], override: str | None) -> RoutePlan:
    """The models to ask. Raises `ConfigError`; with none configured, `NoModelError` naming the ways on."""
    try:
        targets = resolve(settings, environ, override)
    except NoModelError as error:
        from agent.model.detect import detect

        raise error.with_servers(await detect()) from None
    first = targets[0]
    side, problem = _side(settings, environ)
    infos = {target.label: target.info for target in (*targets, *([side] if side else []))}
    return RoutePlan(tuple(targets), profile_of(first), Meter(first.info, infos), side, problem)


def profile_of(target: Target) -> Profile:
    """How a model is spoken to."""
    if target.kind != "local":
        return STANDARD
    from agent.model.local.profile import LOCAL

    return LOCAL


def _side(settings: Settings, environ: Mapping[str, str]) -> tuple[Target | None, str]:
    """The side model, or why it cannot be asked."""
    name = settings.safety.smart.model.strip()
    if not name:
        return None, ""
    try:
        target = resolve(settings, environ, name)[0]
    except ConfigError as error:
        return None, f"The rules decide without the side model of safety.smart.model: {error}"
    if target.kind == "demo":
        return None, "The demo model judges nothing; choose another one for safety.smart.model."
    return target, ""


async def open_routes(
    plan: RoutePlan,
    settings: Settings,
    home: Home,
    tools: Sequence[ToolSpec],
    emit: Callable[[Event], None],
    closers: list[Closer],
) -> tuple[Route, ...]:
    """A route per target. Nothing is connected yet; what must be closed is added to `closers`."""
    routes = []
    for target in plan.targets:
        client = _client(target, settings, home, emit)
        closers.append(client.aclose)
        routes.append(
            Route(
                name=target.label,
                model=target.model,
                client=client,
                codec=codec_for(target.tool_mode),
                tools=tuple(tools),
                images=target.info.images is not False and target.tool_mode == "native",
            )
        )
    return tuple(routes)


def open_adviser(
    plan: RoutePlan,
    routes: Sequence[Route],
    settings: Settings,
    home: Home,
    workspace: Path,
    secrets: Mapping[str, str],
    emit: Callable[[Event], None],
    closers: list[Closer],
    metered: Callable[[ModelClient, str], ModelClient] = lambda client, _: client,
) -> Adviser | None:
    """The side model of the smart mode, None if there is none. Nothing is connected yet.

    `metered` makes a client and the name of its model one whose requests are paid for.
    """
    target = plan.side
    if target is None:
        return None
    from agent.safety.adviser import Adviser

    # A local model that is asked already is not started a second time.
    client = next((route.client for route in routes if route.name == target.label), None)
    if client is None:
        client = _client(target, settings, home, emit)
        closers.append(client.aclose)
    return Adviser(
        metered(client, target.label),
        name=target.label,
        model=target.model,
        timeout=settings.safety.smart.timeout,
        workspace=workspace,
        secrets=secrets,
        count=lambda usage: plan.meter.add_aside(usage, target.label),
        tell=lambda text: emit(Noticed(kind="warning", text=text)),
    )


def _client(target: Target, settings: Settings, home: Home, emit: Callable[[Event], None]) -> ModelClient:
    match target.kind:
        case "demo":
            from agent.model.demo import DemoClient

            return DemoClient()
        case "local":
            return LocalClient(target, settings, home, emit)
        case _:
            return _chat(target, settings.model.stall_timeout)


def _chat(target: Target, stall_timeout: float) -> ModelClient:
    from agent.model.transport.openai_chat import OpenAIChat

    return OpenAIChat(
        target.base_url,
        target.api_key,
        headers=dict(target.headers),
        stall_timeout=stall_timeout,
        provider=target.provider,
        key_hint=target.key_hint,
    )


class LocalClient:
    """The embedded model: its server is started by the first request and stopped with the session."""

    def __init__(self, target: Target, settings: Settings, home: Home, emit: Callable[[Event], None]) -> None:
        self._target = target
        self._settings = settings
        self._home = home
        self._emit = emit
        self._starting = asyncio.Lock()
        self._server: LocalServer | None = None
        self._chat: ModelClient | None = None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        chat = await self._ready()
        async for delta in chat.stream(request):
            yield delta

    async def aclose(self) -> None:
        if self._chat is not None:
            await self._chat.aclose()
        if self._server is not None:
            await self._server.stop()

    async def _ready(self) -> ModelClient:
        async with self._starting:
            if self._server is not None and not self._server.running:
                await self.aclose()
                self._chat = self._server = None
            if self._chat is None:
                self._chat = await self._start()
            return self._chat

    async def _start(self) -> ModelClient:
        from agent.model.local.server import LocalServer
        from agent.model.local.weights import model_file
        from agent.model.transport.openai_chat import OpenAIChat

        settings = self._settings.local
        path = await asyncio.to_thread(model_file, self._home, self._target.path or settings.model)
        self._emit(
            Noticed(kind="info", text="The local model is small: good for a first try and offline work.")
        )
        server = LocalServer(
            path,
            settings.threads,
            settings.context,
            progress=lambda text: self._emit(Noticed(kind="info", text=text)),
        )
        try:
            endpoint = await server.start()
        except HermesError as error:
            raise ModelError("not_found", str(error)) from error
        self._server = server
        return OpenAIChat(endpoint.base_url, endpoint.token, stall_timeout=600, provider="local", key_hint="")
