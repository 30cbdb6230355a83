"""What every part of one engine stands on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.events import Event
from agent.home import Home
from agent.options import Options
from agent.routes import RoutePlan
from agent.spending.metering import Metering
from agent.store.store import Store
from agent.stream import EventStream
from agent.subagents.definitions import Definitions

if TYPE_CHECKING:
    from agent.config.schema import Settings

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """Opened before anything else, and closed after it."""

    options: Options
    home: Home
    settings: Settings
    plan: RoutePlan
    environ: Mapping[str, str]
    variables: Mapping[str, str]
    """`environ` with `~/.hermes/.env` below it, where keys of providers are looked up."""
    definitions: Definitions
    """The kinds of agents there are."""
    store: Store
    stream: EventStream
    secrets: Mapping[str, str]
    """What is masked wherever text is shown, stored or sent, by name."""
    closers: list[Closer]
    """What has to be closed, in the order in which it was opened."""
    metering: Metering | None = None
    """That of the session which an engine works beside."""

    @property
    def agent(self) -> str:
        """Whose engine it is, as its events and requests name it."""
        beside = self.options.beside
        return "main" if beside is None else beside.agent

    @property
    def emit(self) -> Callable[[Event], None]:
        return self.stream.emit

    def tool_options(self) -> dict[str, Any]:
        """Settings that tools read, by their names."""
        terminal, code, home = self.settings.terminal, self.settings.code, self.home
        return {
            "terminal.timeout": terminal.timeout,
            "terminal.max_timeout": terminal.max_timeout,
            "terminal.env_passthrough": tuple(terminal.env_passthrough),
            "code.timeout": code.timeout,
            "code.max_calls": code.max_calls,
            "code.stdout": code.stdout,
            "code.stderr": code.stderr,
            "code.mode": code.mode,
            "files.protected": (str(home.env), str(home.database), str(home.trust)),
        }
