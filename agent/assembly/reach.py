"""What an agent acts through: the gate, the boundary, terminals and scripts, all around one folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.assembly.conversation import Conversation
from agent.assembly.foundation import Foundation
from agent.inbox import Inbox
from agent.inner_calls import Scripts
from agent.policy_news import policy_teller
from agent.routes import open_adviser
from agent.safety.audit import AuditLog
from agent.safety.audit_record import Recorder
from agent.safety.gate import Gate
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
    scripts: Scripts
    runs_in: str
    """What confines commands, or the machine they run on, for the person."""

    @property
    def secrets(self) -> Mapping[str, str]:
        return self.terminals.secrets


async def open_reach(base: Foundation, talk: Conversation, inbox: Inbox) -> Reach:
    """Around the workspace of the session."""
    options, settings, session = base.options, base.settings, talk.session
    scratch = base.home.scratch / session.id / (base.agent if options.beside else "")
    boundary = await asyncio.to_thread(
        open_boundary, settings.sandbox, base.home, options.workspace, scratch, base.environ
    )
    far = backend_options(settings.terminal, base.environ)
    terminals = Terminals(base.environ, boundary=boundary, far=far, secrets=base.secrets)
    base.closers.append(terminals.aclose)
    around = Surroundings(options.workspace, Path.home(), boundary.level, boundary.network, far is not None)
    gate = await _gate(base, talk, inbox, scratch.resolve(), around, terminals.secrets)
    return Reach(
        workspace=options.workspace,
        scratch=scratch,
        terminals=terminals,
        around=around,
        gate=gate,
        scripts=_scripts(base, talk, boundary, terminals.secrets),
        runs_in=boundary.level if far is None else far.title,
    )


async def _gate(
    base: Foundation,
    talk: Conversation,
    inbox: Inbox,
    scratch: Path,
    around: Surroundings,
    secrets: Mapping[str, str],
) -> Gate:
    options, home, settings = base.options, base.home, base.settings
    adviser = open_adviser(
        base.plan,
        talk.routes,
        settings,
        home,
        options.workspace,
        secrets,
        base.emit,
        base.closers,
        talk.metering.side,
    )
    audit = Recorder(AuditLog(home.audit), talk.session.id, options.surface, options.workspace, secrets)
    surface = options.surface or ("tui" if options.attended else "oneshot")
    permissions = Permissions(home, options.workspace, surface, [tool.name for tool in talk.tools])
    await asyncio.to_thread(permissions.current)
    gate = Gate.for_home(
        home,
        options.workspace,
        settings.approvals.mode,
        PersonApprover(inbox, base.agent, around) if options.attended else None,
        scratch=scratch,
        chosen=options.approve,
        permissions=permissions,
        grants=Grants(options.workspace, home.grants, session=audit.session),
        audit=audit,
        adviser=adviser,
    )
    gate.changed = policy_teller(base.stream, gate)
    return gate


def _scripts(base: Foundation, talk: Conversation, boundary: Boundary, secrets: Mapping[str, str]) -> Scripts:
    terminal, session = base.settings.terminal, talk.session
    runner = CodeRunner(boundary, secrets=secrets, passthrough=tuple(terminal.env_passthrough))
    base.closers.append(runner.aclose)
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
    scripts.warm_up(base.options.workspace, base.settings.code.mode)
    return scripts
