"""The execution context of an agent: gate, sandbox boundary, terminals and scripts around one folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import private_folder
from agent.core.messages import MODES, Mode, stricter
from agent.core.store.stored_path import labelled
from agent.errors import ConfigError
from agent.integrations.browser.service import SessionBrowsers
from agent.integrations.diagnostics.service import LanguageServers, ServerPlace
from agent.safety.audit.log import AuditLog, AuditRecorder
from agent.safety.gate import Approver, Gate
from agent.safety.grants import Grants
from agent.safety.impact import ActionEnvironment
from agent.safety.permissions.policy import PermissionPolicy, Permissions
from agent.safety.reach import decide_by_gate
from agent.safety.rules import NO_UNDO, UndoCoverage
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage, SessionBoundary, ask_remote
from agent.safety.sandbox.opening import open_boundary
from agent.session.conversation.opening_events import policy_publisher
from agent.session.pending_requests import PendingRequests
from agent.session.turns.script_calls import warm_up
from agent.session.turns.tool_context import PersonApprover
from agent.session.wiring.conversation import Conversation
from agent.session.wiring.routes import open_adviser
from agent.session.wiring.shared_services import MAIN_AGENT, Closer, SharedServices
from agent.session.wiring.terminal_backend import backend_options
from tools.browser.host import use_remote
from tools.browser.session import Browsers
from tools.code.runner import CodeRunner
from tools.services.diagnostics import Diagnostics
from tools.terminal.terminals import Terminals
from tools.text.redact import secret_values

if TYPE_CHECKING:
    from agent.core.store.nodes import Node
    from agent.safety.sandbox.repository import SettingsCopies
    from tools.services.sandbox import Boundary


def open_browsers(
    base: SharedServices,
    workspace: Path,
    scratch: Path,
    gate: Gate,
    secrets: Mapping[str, str],
    closers: list[Closer],
) -> Browsers:
    """Open the browser service; it is closed with `closers`. A browser starts only when a tool needs it."""
    settings = base.settings.browser
    host = SessionBrowsers(settings, gate, base.home, workspace, scratch, base.environ, secrets)
    browsers = Browsers(host, idle=settings.idle)
    closers.append(browsers.aclose)
    return browsers


def note_settings(base: SharedServices) -> None:
    """Make the browser tools available if the settings name a remote browser."""
    settings = base.settings.browser
    wants = settings.backend in ("auto", "browserbase") and bool(base.environ.get("BROWSERBASE_API_KEY"))
    use_remote(bool(settings.cdp_url) or bool(settings.program) or wants)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """The services with which an agent acts, and their limits."""

    workspace: Path
    scratch: Path
    terminals: Terminals
    browsers: Browsers
    around: ActionEnvironment
    gate: Gate
    audit: AuditRecorder
    """The log of the gate's decisions."""
    scripts: CodeRunner
    diagnostics: Diagnostics
    """The service that checks edited files for errors."""
    confined: bool
    """True if the operating system confines scripts."""
    links_stay: bool
    """True if programs in the sandbox cannot link a file of the workspace to a name outside of it."""
    closed_places: Callable[[], Sequence[Path] | None]
    """Returns guarded paths that are read-only to programs now; None if paths cannot be made read-only."""
    settings: SettingsCopies | None
    """Gives commands copies of git's settings; None if they run on another machine."""
    ask_remote: Callable[[str], Awaitable[Sequence[str]]]
    """Returns the commits of the repository at an address; empty if it is not asked."""
    runs_in: str
    """The sandbox of commands, or the machine on which they run, in words for the user."""

    @property
    def secrets(self) -> Mapping[str, str]:
        return self.terminals.secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionScope:
    """The folder and the agent for which an execution context is opened."""

    workspace: Path
    scratch: Path
    agent: str
    approver: Callable[[ActionEnvironment], Approver] | None
    """Creates the approver that asks the user; None if unattended, or if each agent has its own."""
    closers: list[Closer]
    """The list to which functions that close the opened services are added."""
    origin: Path | None = None
    """The original folder if `workspace` is a copy; it can be read."""
    steps: bool = True
    """True if steps are recorded; without them, and in a temporary copy, nothing can be undone."""
    rules: Gate | None = None
    """The gate whose mode, project rules and grants apply here too; None if there is no other gate."""


def session_scope(
    base: SharedServices, talk: Conversation, pending_requests: PendingRequests, *, steps: bool
) -> ExecutionScope:
    """Return the scope of the session's workspace and own agent; `steps` tells whether steps are recorded."""
    options = base.options
    return ExecutionScope(
        workspace=options.workspace,
        scratch=base.home.scratch / talk.session.id,
        agent=MAIN_AGENT,
        approver=partial(PersonApprover, pending_requests, MAIN_AGENT) if options.attended else None,
        closers=base.closers,
        steps=steps,
    )


async def open_execution(
    base: SharedServices, talk: Conversation, wanted: ExecutionScope
) -> ExecutionContext:
    """Open the execution context of an agent of the session. Raises `HermesError`."""
    settings = base.settings
    await asyncio.to_thread(private_folder, base.home.scratch)
    boundary = await asyncio.to_thread(
        open_boundary,
        settings.sandbox,
        base.home,
        wanted.workspace,
        wanted.scratch,
        base.environ,
        # Scripts of skills are run in their own folder.
        (
            base.home.skills,
            *base.plugins.skill_folders(),
            *(() if wanted.origin is None else (wanted.origin,)),
        ),
        {**base.secrets, **secret_values(base.environ)},
    )
    far = backend_options(settings.terminal, base.environ)
    terminals = Terminals(
        base.environ,
        boundary=boundary,
        far=far,
        secrets=base.secrets,
        # A single command is what most unattended sessions run.
        waits_from=0 if _is_service(base) else 1 if base.options.attended else 2,
    )
    wanted.closers.append(terminals.aclose)
    audit = _recorder(base, talk, wanted, terminals.secrets)
    around = ActionEnvironment(
        wanted.workspace, Path.home(), boundary.level, boundary.network, far is not None
    )
    coverage = NO_COVERAGE if far is not None else boundary.coverage(steps=wanted.steps)
    gate = await _gate(base, talk, wanted, around, coverage, audit, terminals.secrets)
    report = gate.changed

    def changed(policy: PermissionPolicy) -> None:
        terminals.end_waiting()
        if report is not None:
            report(policy)

    gate.changed = changed
    if boundary.filtered is not None:
        decide_by_gate(boundary.filtered, gate, settings.sandbox.hosts)
    wanted.closers.append(partial(asyncio.to_thread, boundary.close))
    return ExecutionContext(
        workspace=wanted.workspace,
        scratch=wanted.scratch,
        terminals=terminals,
        browsers=open_browsers(
            base, wanted.workspace, wanted.scratch, gate, terminals.secrets, wanted.closers
        ),
        around=around,
        gate=gate,
        audit=audit,
        scripts=_scripts(base, talk, wanted, boundary, terminals.secrets),
        diagnostics=_diagnostics(base, wanted),
        confined=boundary.level != "none",
        links_stay=far is None and _links_stay(boundary, wanted.workspace, settings.sandbox.writable),
        closed_places=boundary.closed_places,
        settings=boundary.settings if far is None else None,
        ask_remote=partial(ask_remote, boundary, base.environ),
        runs_in=boundary.level if far is None else far.title,
    )


def _links_stay(boundary: SessionBoundary, workspace: Path, writable: Sequence[str]) -> bool:
    """Return whether programs in the sandbox cannot link a file of the workspace to a name outside of it.

    Bubblewrap mounts each writable folder separately, and links cannot lead across mounts.
    """
    around = any(workspace.is_relative_to(Path(each).expanduser()) for each in writable)
    return boundary.level == "bubblewrap" and not around


def _recorder(
    base: SharedServices, talk: Conversation, wanted: ExecutionScope, secrets: Mapping[str, str]
) -> AuditRecorder:
    log, surface = AuditLog(base.home.audit), base.options.surface
    return AuditRecorder(log, talk.session.id, surface, wanted.workspace, secrets, wanted.agent)


async def _gate(
    base: SharedServices,
    talk: Conversation,
    wanted: ExecutionScope,
    around: ActionEnvironment,
    coverage: BoundaryCoverage,
    audit: AuditRecorder,
    secrets: Mapping[str, str],
) -> Gate:
    options, home, settings, rules = base.options, base.home, base.settings, wanted.rules
    workspace, session = wanted.workspace, talk.session.id
    adviser = open_adviser(
        base.plan,
        talk.routes,
        settings,
        home,
        workspace,
        secrets,
        base.emit,
        wanted.closers,
        talk.metering.side,
    )
    surface = options.surface or ("tui" if options.attended else "oneshot")
    project = None if rules is None else options.workspace
    names = [tool.name for tool in (*talk.tools, *talk.searched)]
    try:
        permissions = Permissions(home, workspace, surface, names, project=project, allow=options.allow)
    except ValueError as error:
        raise ConfigError(f"A rule of the job {error}; give one like terminal(git status).") from error
    await asyncio.to_thread(permissions.current)
    gate = Gate.for_home(
        home,
        workspace,
        settings.approvals.mode,
        wanted.approver(around) if wanted.approver is not None else None,
        scratch=wanted.scratch.resolve(),
        chosen=options.approve,
        permissions=permissions,
        grants=Grants(workspace, home.grants, session=session) if rules is None else rules.grants,
        audit=audit,
        adviser=None if adviser is None else adviser.advise,
        coverage=coverage,
        undo=UndoCoverage(largest=settings.checkpoints.max_file_mb * 1_000_000) if wanted.steps else NO_UNDO,
    )
    if rules is None:
        left = None if options.approve else _mode_left(talk.session.path)
        if left is not None and stricter(gate.mode, left) != gate.mode:
            gate.mode = left
        gate.changed = policy_publisher(base.stream, gate)
    else:
        gate.follow(rules)
    return gate


def _mode_left(path: Sequence[Node]) -> Mode | None:
    """Return the permission mode that was chosen last in a conversation; None if none was."""
    chosen = (node.data.get("mode") for node in reversed(labelled(path, "notice")))
    return next((each for each in chosen if each in MODES), None)


def _is_service(base: SharedServices) -> bool:
    """Return whether this process serves many sessions: idle helpers in each would be too expensive."""
    return base.options.surface.startswith(("serve", "gateway"))


def _diagnostics(base: SharedServices, wanted: ExecutionScope) -> LanguageServers:
    place = ServerPlace(
        workspace=wanted.workspace.resolve(),
        home=base.home,
        environ=base.environ,
        sandbox=base.settings.sandbox,
    )
    servers = LanguageServers(place, base.settings.diagnostics)
    wanted.closers.append(servers.close)
    return servers


def _scripts(
    base: SharedServices,
    talk: Conversation,
    wanted: ExecutionScope,
    boundary: Boundary,
    secrets: Mapping[str, str],
) -> CodeRunner:
    passthrough = tuple(base.settings.terminal.env_passthrough)
    runner = CodeRunner(boundary, spare=not _is_service(base), secrets=secrets, passthrough=passthrough)
    wanted.closers.append(runner.aclose)
    # In unattended use, few sessions run a script, and many may be open at once.
    if wanted.rules is None and base.options.attended:
        warm_up(runner, (*talk.tools, *talk.searched), base.tools, wanted.workspace, base.settings.code.mode)
    return runner
