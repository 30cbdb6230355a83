"""The services shared by all parts of one engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.config.hook_list import Hook
from agent.core.home import Home
from agent.core.store.store import Store
from agent.events import Event
from agent.integrations.plugins.session_plugins import SessionPlugins
from agent.knowledge.memory.service import MemoryProvider
from agent.knowledge.recall.recall import Recall
from agent.session.options import Options
from agent.session.stream import EventStream
from agent.session.wiring.routes import RoutePlan
from tools.registry import Registry
from tools.services.job_keeper import JobKeeper
from tools.services.training_keeper import TrainingKeeper

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

Closer = Callable[[], Awaitable[None]]

MAIN_AGENT = "main"
"""The name of the session's own agent in its events and requests."""


@dataclass(frozen=True, slots=True)
class Automation:
    """The services for unattended work that agents may use. The code that opens a session passes them in, so
    that the session does not depend on its callers.
    """

    jobs: Callable[[SharedServices, Path], JobKeeper] | None = None
    """Returns the scheduled jobs for an agent that works in this folder."""
    training: Callable[[SharedServices], TrainingKeeper | None] = lambda _: None
    """Returns the service for training runs, or None."""


NO_AUTOMATION = Automation()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServices:
    """The services that are opened before all others, and closed after them."""

    options: Options
    home: Home
    settings: Settings
    hooks: tuple[Hook, ...]
    """All declared hooks, with or without consent."""
    plan: RoutePlan
    environ: Mapping[str, str]
    variables: Mapping[str, str]
    """`environ` plus variables of `~/.hermes/.env` that it lacks; keys of providers are looked up here."""
    store: Store
    recall: Recall
    notes: MemoryProvider
    """The notes that outlive a session, stored in files or by a plugin."""
    tools: Registry
    """The tools of this session: those of the program, of plugins and of servers."""
    plugins: SessionPlugins
    """The plugins of the session."""
    stream: EventStream
    secrets: Mapping[str, str]
    """Values that are masked in all text shown, stored or sent, by name."""
    closers: list[Closer]
    """Functions that close services, in the order of opening."""

    @property
    def emit(self) -> Callable[[Event], None]:
        return self.stream.emit

    def tool_options(self) -> dict[str, Any]:
        """Return the settings that tools read, by setting name."""
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
            "files.journal": str(home.edits),
            "files.protected": (str(home.env), str(home.database), str(home.trust), str(home.passages)),
        }
