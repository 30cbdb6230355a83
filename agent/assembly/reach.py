"""What an agent acts through: the gate, the boundary, terminals and scripts, all around one folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.assembly.conversation import Conversation
from agent.assembly.foundation import Closer, Foundation
from agent.home import private_folder
from agent.inbox import Inbox
from agent.inner_calls import Scripts
from agent.policy_news import policy_teller
from agent.routes import open_adviser
from agent.safety.audit import AuditLog
from agent.safety.audit_record import Recorder
from agent.safety.gate import Approver, Gate
from agent.safety.grants import Grants
from agent.safety.outlook import Surroundings
from agent.safety.permissions.policy import Permissions
from agent.safety.sandbox.opening import open_boundary
from agent.script_journal import Journals
from agent.terminal_backend import backend_options
from agent.tool_context import PersonApprover
from tools.code.runner import CodeRunner
from tools.registry import registry
from tools.terminal.terminals import Terminals

if TYPE_CHECKING:
    from tools.sandbox import Boundary


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far an agent reaches, and by what."""

    workspace: Path
    scratch: Path
    terminals: Terminals
    around: Surroundings
    gate: Gate
    audit: Recorder
    """What takes down what the gate rules."""
    scripts: Scripts
    runs_in: str
    """What confines commands, or the machine they run on, for the person."""

    @property
    def secrets(self) -> Mapping[str, str]:
        return self.terminals.secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Around which folder a reach is opened, and for whom."""

    workspace: Path
    scratch: Path
    agent: str
    approver: Callable[[Surroundings], Approver] | None
    """The way to a person; None where nobody is there, or each agent brings its own."""
    closers: list[Closer]
    """Where what has to be closed is put."""
    origin: Path | None = None
    """What `workspace` is a copy of; it can be read."""
    rules: Gate | None = None
    """Whose mode, project rules and grants count here too; None: those of the workspace itself."""


def around_session(base: Foundation, talk: Conversation, inbox: Inbox) -> Around:
    """Around the workspace of the session, for its own agent."""
    options = base.options
    beside = options.beside
    return Around(
        workspace=options.workspace,
        origin=None if beside is None else beside.origin,
        scratch=base.home.scratch / talk.session.id / (base.agent if beside else ""),
        agent=base.agent,
        approver=partial(PersonApprover, inbox, base.agent) if options.attended else None,
        closers=base.closers,
    )


async def open_reach(base: Foundation, talk: Conversation, wanted: Around) -> Reach:
    """What an agent of the session acts through. Raises `HermesError`."""
    settings = base.settings
    await asyncio.to_thread(private_folder, base.home.scratch)
    boundary = await asyncio.to_thread(
        open_boundary,
        settings.sandbox,
        base.home,
        wanted.workspace,
        wanted.scratch,
        base.environ,
        () if wanted.origin is None else (wanted.origin,),
    )
    far = backend_options(settings.terminal, base.environ)
    terminals = Terminals(base.environ, boundary=boundary, far=far, secrets=base.secrets)
    wanted.closers.append(terminals.aclose)
    audit = _recorder(base, talk, wanted, terminals.secrets)
    around = Surroundings(wanted.workspace, Path.home(), boundary.level, boundary.network, far is not None)
    return Reach(
        workspace=wanted.workspace,
        scratch=wanted.scratch,
        terminals=terminals,
        around=around,
        gate=await _gate(base, talk, wanted, around, audit, terminals.secrets),
        audit=audit,
        scripts=_scripts(base, talk, wanted, boundary, terminals.secrets),
        runs_in=boundary.level if far is None else far.title,
    )


def _recorder(base: Foundation, talk: Conversation, wanted: Around, secrets: Mapping[str, str]) -> Recorder:
    log, surface = AuditLog(base.home.audit), base.options.surface
    return Recorder(log, talk.session.id, surface, wanted.workspace, secrets, wanted.agent)


async def _gate(
    base: Foundation,
    talk: Conversation,
    wanted: Around,
    around: Surroundings,
    audit: Recorder,
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
    names = [tool.name for tool in talk.tools]
    permissions = Permissions(home, workspace, surface, names, project=project)
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
        adviser=adviser,
        confinement=around.confinement,
    )
    if rules is None:
        gate.changed = policy_teller(base.stream, gate)
    else:
        gate.follow(rules)
    return gate


def _scripts(
    base: Foundation, talk: Conversation, wanted: Around, boundary: Boundary, secrets: Mapping[str, str]
) -> Scripts:
    terminal, session = base.settings.terminal, talk.session
    runner = CodeRunner(boundary, secrets=secrets, passthrough=tuple(terminal.env_passthrough))
    wanted.closers.append(runner.aclose)
    scripts = Scripts(
        runner=runner,
        tools=registry,
        specs=talk.tools,
        session=session,
        emit=base.emit,
        secrets=secrets,
        confined=boundary.level != "none",
        journals=Journals(base.home.scripts / session.id),
    )
    if wanted.rules is None:
        scripts.warm_up(wanted.workspace, base.settings.code.mode)
    return scripts
