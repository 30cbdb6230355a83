"""Routes to the configured models: clients, codecs and the local server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ConfigError, HermesError, ModelError
from agent.events import Event, Noticed
from agent.integrations.server_events import DialectLearned
from agent.model.codecs import codec_for
from agent.model.dialect import FOLDER, mistakes
from agent.model.dialect_book import DialectBook, LearnedRule, SpokenDialect
from agent.model.format_registry import DEFAULT_FORMAT, FORMATS
from agent.model.protocol import (
    COMPACT,
    SMALL_WINDOW,
    STANDARD,
    Delta,
    ModelClient,
    ModelRequest,
    Profile,
    ToolSpec,
)
from agent.model.providers import (
    NoModelError,
    Target,
    UnusableModelError,
    resolve,
    seller,
    unlisted_notice,
    unlisted_problem,
)
from agent.model.server_watch import ServerWatches
from agent.model.transport.reply import ModelRoute
from agent.model.usage import Meter
from agent.model.wire_format import Wire

if TYPE_CHECKING:
    from agent.core.config.problem import SettingProblem
    from agent.core.config.schema import Settings
    from agent.model.local.server import LocalServer
    from agent.safety.smart import Adviser

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """The models to use, in the order in which they are tried, and the profile of the first one."""

    targets: tuple[Target, ...]
    profile: Profile
    meter: Meter
    side: Target | None = None
    """The side model of the smart mode; None if there is none."""
    problem: str = ""
    """Problems with the side or summary model; empty if there are none."""
    summary: Target | None = None
    """The model for summaries; None for the first one."""
    servers: ServerWatches = field(default_factory=ServerWatches)

    @property
    def all(self) -> tuple[Target, ...]:
        """Every model that may be used."""
        return (*self.targets, *(each for each in (self.side, self.summary) if each is not None))


async def plan_routes(
    settings: Settings,
    environ: Mapping[str, str],
    override: str | None,
    problems: Sequence[SettingProblem] = (),
    home: Home | None = None,
) -> RoutePlan:
    """Return the models to use. Their context windows are limited to those that earlier refusals named, which
    are stored in `home`.

    Raises `ConfigError` if a model cannot be used, or `NoModelError` with the possible next steps if none is
    configured. Most messages begin with the `problems` of the settings, which may be the cause.
    """
    try:
        targets = resolve(settings, environ, override)
    except NoModelError as error:
        from agent.model.detect import detect
        from agent.model.model_choices import ports

        raise error.with_servers(await detect(ports(settings, environ)), tuple(map(str, problems))) from None
    except ConfigError as error:
        raise type(error)(" ".join([*map(str, problems), str(error)])) from None
    servers = ServerWatches()
    targets = list(await asyncio.gather(*map(servers.inform, targets)))
    broken: list[str] = []
    if home is not None:
        targets = await asyncio.to_thread(_with_windows, targets, home)
        broken = await asyncio.to_thread(mistakes, home.root / FOLDER)
    first = targets[0]
    if problem := unlisted_problem(first):
        raise UnusableModelError(problem)
    side, problem = await _side(settings, environ, servers)
    summary, other = await _summary(settings, environ, servers)
    used = {each.label: each for each in (side, summary, *targets) if each is not None}
    infos = {label: each.info for label, each in used.items()}
    wrong = " ".join(
        filter(
            None,
            (
                problem,
                other,
                *broken,
                *map(untooled_notice, targets),
                *map(_window_notice, targets),
                *map(unlisted_notice, used.values()),
            ),
        )
    )
    meter = Meter(first.info, infos)
    return RoutePlan(tuple(targets), profile_of(first), meter, side, wrong, summary, servers)


def _with_windows(targets: Sequence[Target], home: Home) -> list[Target]:
    """Return `targets` with context windows from earlier refusals, unless the server reports its own."""
    book = DialectBook(home.root)
    informed = []
    for target in targets:
        told = "context_window" in target.info.told
        spoken = spoken_of(target, book)
        window = 0 if told else spoken.current.limits.window
        if told and spoken.current.limits.window != target.info.context_window:
            spoken.forget_window()
        if window and window < (target.info.context_window or math.inf):
            target = replace(target, info=replace(target.info, context_window=window))
        informed.append(target)
    return informed


def _window_notice(target: Target) -> str:
    """Return a notice if the window in use is smaller than in the settings; otherwise an empty text."""
    chosen, window = target.chosen.context_window, target.info.context_window
    if not chosen or not window or window >= chosen:
        return ""
    return (
        f"The window of {target.label} counts as {window:,} tokens, as a refusal named it, in place of the "
        f"{chosen:,} of the settings; `hermes providers forget {target.provider}` drops that."
    )


def untooled_notice(target: Target) -> str:
    """Return a notice if calls are sent as text because the server requires it; otherwise an empty text."""
    if not target.untooled:
        return ""
    return (
        f"The server of {target.label} says that the template of this model knows no tools: "
        "calls travel as text (tool mode text)."
    )


def profile_of(target: Target) -> Profile:
    """Return the profile for a model: local, compact for a small context window, or standard."""
    if target.kind != "local":
        window = target.info.context_window
        return COMPACT if window is not None and window < SMALL_WINDOW else STANDARD
    from agent.model.local.profile import LOCAL

    return LOCAL


def wire_of(target: Target, spoken: SpokenDialect | None = None) -> Wire:
    """Return the wire format and the tool mode of a model. Raises `ConfigError` for an unreadable format."""
    mode = target.tool_mode
    if mode == "native" and spoken is not None:
        mode = spoken.current.tools.mode or mode
    return Wire(FORMATS.get(target.format), codec_for(mode))


def book_of(home: Home, emit: Callable[[Event], None]) -> DialectBook:
    """Return the dialects that a session reads and learns. `emit` receives events about learned rules."""

    def tell(learned: LearnedRule) -> None:
        emit(
            DialectLearned(
                provider=learned.provider, model=learned.model, rule=learned.rule, reason=learned.reason
            )
        )
        lost = learned.rule in ("drop_image", "drop_tool")
        emit(Noticed(kind="warning" if lost else "info", text=learned.sentence))

    return DialectBook(home.root, tell)


def spoken_of(target: Target, book: DialectBook) -> SpokenDialect:
    """Return the dialect of a model. Reads files. Raises `ConfigError` for an unreadable dialect."""
    if target.kind != "chat":
        return SpokenDialect()
    url = target.base_url
    return book.of(target.provider, url, target.model, chosen=target.dialect, seller=seller(url))


async def _side(
    settings: Settings, environ: Mapping[str, str], servers: ServerWatches
) -> tuple[Target | None, str]:
    """Return the side model or None, and a sentence on why it cannot be used, or an empty text."""
    name = settings.safety.smart.model.strip()
    if not name:
        return None, ""
    try:
        target = await _resolve_alone(settings, environ, name, servers)
    except ConfigError as error:
        return None, f"The rules decide without the side model of safety.smart.model: {error}"
    if target.kind == "demo":
        return None, "The demo model judges nothing; choose another one for safety.smart.model."
    return target, ""


async def _summary(
    settings: Settings, environ: Mapping[str, str], servers: ServerWatches
) -> tuple[Target | None, str]:
    """Return the model for summaries or None, and a sentence on why it cannot be used, or an empty text."""
    name = settings.context.summary_model.strip()
    if not name:
        return None, ""
    try:
        return await _resolve_alone(settings, environ, name, servers), ""
    except ConfigError as error:
        return None, f"Summaries are made by the session's model, not by context.summary_model: {error}"


async def _resolve_alone(
    settings: Settings, environ: Mapping[str, str], name: str, servers: ServerWatches
) -> Target:
    """Return the target of a model's name, with what its server reports. Raises `ConfigError`."""
    target = await servers.inform(resolve(settings, environ, name)[0])
    if problem := unlisted_problem(target):
        raise ConfigError(problem)
    return target


def open_summary_route(
    plan: RoutePlan,
    routes: Sequence[ModelRoute],
    settings: Settings,
    home: Home,
    emit: Callable[[Event], None],
    closers: list[Closer],
) -> ModelRoute | None:
    """Return the route for summaries; None if the first model writes them. Opens no connection."""
    target = plan.summary
    if target is None:
        return None
    known = next((route for route in routes if route.name == target.label), None)
    if known is not None:
        return known
    spoken = spoken_of(target, book_of(home, emit))
    client = _client(target, settings, home, emit, spoken)
    closers.append(client.aclose)
    return ModelRoute(
        name=target.label,
        model=target.model,
        client=client,
        wire=wire_of(target),
        usual_output=target.info.max_output,
        spoken=spoken,
    )


async def open_routes(
    plan: RoutePlan,
    settings: Settings,
    home: Home,
    tools: Sequence[ToolSpec],
    emit: Callable[[Event], None],
    closers: list[Closer],
) -> tuple[ModelRoute, ...]:
    """Return one route for each model of the plan. Opens no connection.

    Functions that close the clients are added to `closers`.
    """
    routes = []
    book = book_of(home, emit)
    for target in plan.targets:
        spoken = await asyncio.to_thread(spoken_of, target, book)
        client = _client(target, settings, home, emit, spoken)
        closers.append(client.aclose)
        wire = wire_of(target, spoken)
        routes.append(
            ModelRoute(
                name=target.label,
                model=target.model,
                client=client,
                wire=wire,
                tools=tuple(tools),
                images=target.info.images is not False and wire.mode.mode == "native",
                usual_output=target.info.max_output,
                watched=plan.servers.watch_target(target),
                spoken=spoken,
            )
        )
    return tuple(routes)


def open_adviser(
    plan: RoutePlan,
    routes: Sequence[ModelRoute],
    settings: Settings,
    home: Home,
    workspace: Path,
    secrets: Mapping[str, str],
    emit: Callable[[Event], None],
    closers: list[Closer],
    metered: Callable[[ModelClient, str], ModelClient] = lambda client, _: client,
) -> Adviser | None:
    """Return the adviser of the smart mode, which asks the side model; None if there is none. Opens no
    connection.

    `metered` wraps a client, given with the name of its model, so that its requests are counted.
    """
    target = plan.side
    if target is None:
        return None
    from agent.safety.smart import Adviser

    # A local model already in use is not started a second time.
    client = next((route.client for route in routes if route.name == target.label), None)
    if client is None:
        client = _client(target, settings, home, emit, spoken_of(target, book_of(home, emit)))
        closers.append(client.aclose)
    return Adviser(
        ModelRoute(
            name=target.label,
            model=target.model,
            client=metered(client, target.label),
            wire=Wire(FORMATS.get(target.format), codec_for("native")),
        ),
        timeout=settings.safety.smart.timeout,
        workspace=workspace,
        secrets=secrets,
        count=lambda usage: plan.meter.add_aside(usage, target.label),
        tell=lambda text: emit(Noticed(kind="warning", text=text)),
    )


def _client(
    target: Target, settings: Settings, home: Home, emit: Callable[[Event], None], spoken: SpokenDialect
) -> ModelClient:
    match target.kind:
        case "demo":
            from agent.model.demo import DemoClient

            return DemoClient()
        case "local":
            return LocalClient(target, settings, home, emit)
        case _:
            return _remote(target, settings.model.stall_timeout, emit, spoken)


def _remote(
    target: Target, stall_timeout: float, emit: Callable[[Event], None], spoken: SpokenDialect
) -> ModelClient:
    from agent.model.transport.client import FailureNames, FormatClient

    def client(variable: str, key: str) -> FormatClient:
        return FormatClient(
            FORMATS.get(target.format),
            target.base_url,
            key,
            headers=dict(target.headers),
            stall_timeout=stall_timeout,
            names=FailureNames(target.provider, variable, target.secrets),
            spoken=lambda _: spoken,
        )

    if not target.more_keys:
        return client(target.key_hint, target.api_key)
    from agent.model.transport.key_pool import KeyPool

    keys = {target.key_hint: target.api_key, **target.more_keys}
    return KeyPool(
        {variable: client(variable, key) for variable, key in keys.items()},
        lambda text: emit(Noticed(kind="warning", text=text)),
    )


class LocalClient:
    """A client for the embedded model. The first request starts its server, which stops with the session."""

    def __init__(self, target: Target, settings: Settings, home: Home, emit: Callable[[Event], None]) -> None:
        self._target = target
        self._settings = settings
        self._home = home
        self._emit = emit
        self._starting = asyncio.Lock()
        self._server: LocalServer | None = None
        self._chat: ModelClient | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
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
        from agent.model.local.sources import model_file
        from agent.model.transport.client import FailureNames, FormatClient

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
        return FormatClient(
            FORMATS.get(DEFAULT_FORMAT),
            endpoint.base_url,
            endpoint.token,
            stall_timeout=600,
            names=FailureNames("local", ""),
        )
