"""The composition root: builds the services of one session and wires them together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.announcing import announce
from agent.attachments import AttachmentStore
from agent.calls import CallRunner
from agent.checkpoint_service import CheckpointService
from agent.checkpointing import open_recorder
from agent.context.profile import Profile
from agent.dialogue import Dialogue
from agent.engine import Engine
from agent.futures import Futures
from agent.home import Home, private_folder
from agent.inbox import Inbox
from agent.inner_calls import Scripts
from agent.known_secrets import known_secrets
from agent.mailbox import Mailbox
from agent.messages import ToolCall
from agent.model.protocol import ToolSpec
from agent.model.transport.reply import Route
from agent.model.transport.retry import RetryPolicy
from agent.opening import Beside, apart, open_session, swept
from agent.policy_news import permission_problems, policy_teller
from agent.routes import RoutePlan, open_adviser, open_routes, plan_routes
from agent.safety.audit import AuditLog
from agent.safety.audit_record import Recorder
from agent.safety.gate import Gate
from agent.safety.grants import Grants
from agent.safety.outlook import Surroundings
from agent.safety.permissions.modes import ModeName
from agent.safety.permissions.policy import Permissions
from agent.safety.sandbox.opening import open_boundary
from agent.script_journal import Journals
from agent.session import LiveSession
from agent.store.nodes import Node
from agent.store.store import Store
from agent.stream import EventStream, Listener
from agent.subagents.child import Services
from agent.subagents.team import Team, open_team
from agent.system import ensure_system, tone_of
from agent.tasks import LiveTodos, TaskState
from agent.terminal_backend import backend_options
from agent.tool_context import CallContext, PersonApprover, PersonAsker
from agent.travel import Travel
from agent.turn import TurnRunner
from tools.code.runner import CodeRunner
from tools.discovery import discover
from tools.registry import registry
from tools.terminal.terminals import Terminals
from tools.todo import render
from tools.toolsets import resolve as resolve_toolsets

if TYPE_CHECKING:
    from agent.config.loader import Loaded
    from agent.config.schema import Settings
    from agent.safety.adviser import Adviser
    from agent.workspace.attention import Attention
    from agent.workspace.checkpoints.recorder import Recorder as Steps

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a surface may choose when it opens a session."""

    workspace: Path
    """The folder to work in, resolved."""
    model: str | None = None
    resume: str | None = None
    """Id, start of an id, or title of a session to go on with."""
    resume_last: bool = False
    approve: ModeName | None = None
    """A mode for this session, whatever settings and permissions say."""
    max_steps: int | None = None
    surface: str = ""
    """Where the session is used: `tui`, `plain`, `oneshot` or `json`."""
    attended: bool = False
    """Whether a person is there to answer questions."""
    preview: Callable[[Sequence[Node]], None] | None = None
    """Told the last nodes of a session that is resumed, before all of it is read."""
    beside: Beside | None = None
    """Work on another branch of a session that this process has open; `workspace` is a copy then."""


async def open_engine(
    options: Options, *listeners: Listener, environ: Mapping[str, str] = os.environ
) -> Engine:
    """Open a session, new or resumed, ready for its first message.

    Raises a `HermesError` when there is no model, no usable store, or no such session.
    """
    home = Home.locate(dict(environ))
    private_folder(home.root)
    beside = options.beside
    project = options.workspace if beside is None else beside.origin
    loaded = await asyncio.to_thread(_configured, home, dict(environ), project)
    plan = await plan_routes(loaded.settings, loaded.environ, options.model)
    stream = EventStream()
    for listener in listeners:
        stream.subscribe(listener)
    problems = [str(problem) for problem in loaded.problems]
    if wrong := (await asyncio.to_thread(tone_of, loaded.settings))[1]:
        problems.append(wrong)
    if loaded.project == "untrusted":
        problems.append(
            "This project brings settings of its own, which were not read; see `hermes config trust`."
        )
    problems += [plan.problem] if plan.problem else []
    problems += [f"The tools of {each.module} are missing: {each.reason}" for each in discover()]
    secrets = _secrets(loaded, plan)
    store = beside.store if beside else await Store.open(home.database, secrets=secrets)
    closers: list[Closer] = [] if beside else [store.close, swept(home.copies)]
    try:
        return await _assemble(
            options, home, loaded.settings, plan, environ, store, stream, closers, problems, secrets
        )
    except BaseException:
        for close in reversed(closers):
            await close()
        raise


def _configured(home: Home, environ: dict[str, str], workspace: Path) -> Loaded:
    """Settings, environment with `.env`, and what is wrong with them. Reads files."""
    from agent.config.loader import load

    return load(home, environ, workspace)


async def _assemble(
    options: Options,
    home: Home,
    settings: Settings,
    plan: RoutePlan,
    environ: Mapping[str, str],
    store: Store,
    stream: EventStream,
    closers: list[Closer],
    problems: Sequence[str],
    secrets: Mapping[str, str],
) -> Engine:
    profile = plan.profile
    tools = _offered(settings, profile, beside=options.beside is not None)
    opened = await open_session(options, home, store, plan.targets[0].label)
    closers.append(opened.release)
    session = LiveSession(store, opened.record, opened.path, stream.emit, opened.head)
    await session.prepare()
    plan.meter.add_past(node.data for node in opened.path if node.kind == "assistant")
    if not opened.owned:
        await session.branch_off()
    changed = await ensure_system(session, options.workspace, home, settings, profile, tools)
    routes = await open_routes(plan, settings, home, tools, stream.emit, closers)
    beside = options.beside
    agent = _agent(options)
    inbox = beside.inbox if beside else Inbox(stream.emit, attended=options.attended, secrets=secrets)
    mailbox = Mailbox(stream.emit)
    scratch = home.scratch / session.id / (beside.agent if beside else "")
    boundary = await asyncio.to_thread(
        open_boundary, settings.sandbox, home, options.workspace, scratch, environ
    )
    far = backend_options(settings.terminal, environ)
    terminals = Terminals(environ, boundary=boundary, far=far, secrets=secrets)
    closers.append(terminals.aclose)
    recorder = Recorder(
        AuditLog(home.audit), session.id, options.surface, options.workspace, terminals.secrets
    )
    offered = [tool.name for tool in tools]
    around = Surroundings(options.workspace, Path.home(), boundary.level, boundary.network, far is not None)
    adviser = open_adviser(
        plan, routes, settings, home, options.workspace, terminals.secrets, stream.emit, closers
    )
    gate = await _gate(options, home, settings, inbox, scratch.resolve(), recorder, offered, around, adviser)
    gate.changed = policy_teller(stream, gate)
    problems = [*problems, *permission_problems(gate.policy)]
    scripts = Scripts(
        runner=CodeRunner(
            boundary,
            secrets=terminals.secrets,
            passthrough=tuple(settings.terminal.env_passthrough),
        ),
        tools=registry,
        specs=tools,
        session=session,
        emit=stream.emit,
        secrets=terminals.secrets,
        confined=boundary.level != "none",
        journals=(journals := Journals(home.scripts / session.id)),
    )
    closers.append(scripts.runner.aclose)
    scripts.warm_up(options.workspace, settings.code.mode)
    todos = LiveTodos(session.todos(), stream.emit)
    state = TaskState(session.id, scratch, todos)
    steps = None
    if beside is None:
        steps = await open_recorder(
            home,
            options.workspace,
            session.id,
            settings.checkpoints,
            stream.emit,
            mailbox.remember,
            opened.interrupted,
            closers,
        )
    if steps is not None:
        session.position = lambda: steps.position
    elif beside is not None:
        session.position = lambda: beside.position
    attention = await _attention(options, settings, stream, mailbox, closers, secrets)
    team = None
    if beside is None and settings.subagents.depth > 0:
        services = Services(
            store=store,
            home=home,
            settings=settings,
            workspace=options.workspace,
            root=session.id,
            routes=routes,
            infos={target.label: target.info for target in plan.targets},
            profile=profile,
            tools=tools,
            registry=registry,
            emit=stream.emit,
            inbox=inbox,
            gate=gate,
            around=around,
            terminals=terminals,
            scripts=scripts,
            options=_tool_options(settings, home),
            steps=steps,
            attachments=AttachmentStore(home.attachments),
            scratch=scratch,
        )
        team = open_team(services, settings.subagents, mailbox)
        closers.append(team.scheduler.aclose)
    calls = CallRunner(
        session,
        registry,
        frozenset(tool.name for tool in tools),
        _context_factory(
            options,
            settings,
            home,
            store,
            stream,
            inbox,
            mailbox,
            gate,
            state,
            terminals,
            scripts,
            steps,
            None if steps is None else CheckpointService(session, steps, lambda: travel),
            team,
        ),
        state,
        stream.emit,
        parallel=settings.agent.parallel_calls,
        result_limit=profile.result_limit,
        secrets=terminals.secrets,
        attention=attention,
        recorder=steps,
        left_by=journals.left_by,
    )
    dialogue = _dialogue(session, routes, plan, settings, stream, state, AttachmentStore(home.attachments))
    turns = TurnRunner(
        session,
        dialogue,
        calls,
        mailbox,
        profile,
        stream.emit,
        max_steps=options.max_steps or settings.agent.max_turns,
    )
    runs_in = boundary.level if far is None else far.title
    announce(stream, session, opened, routes[0], gate.mode, runs_in, changed, problems)
    if team is not None and opened.owned:
        await team.find_again()

    async def moved(reason: str) -> None:
        """The conversation became another one: what was known of it is no longer true."""
        state.files.clear()
        todos.replace(session.todos())
        await ensure_system(session, options.workspace, home, settings, profile, tools)
        await dialogue.begin_again(reason)

    travel = Travel(session, steps, stream.emit, moved)
    futures = None
    if steps is not None:

        async def beside_us(chosen: Options, listener: Listener) -> Engine:
            return await open_engine(chosen, listener, environ=environ)

        futures = Futures(
            session, steps, travel, inbox, stream.emit, home.copies, options, lambda: gate.mode, beside_us
        )
        closers.append(futures.close)
    model, closing = routes[0].name, list(reversed(closers))
    return Engine(
        session,
        stream,
        inbox,
        mailbox,
        turns,
        model,
        closing,
        dialogue.context,
        gate,
        attention,
        travel if beside is None else None,
        futures,
        agent,
        None if team is None else team.scheduler,
    )


def _secrets(loaded: Loaded, plan: RoutePlan) -> dict[str, str]:
    """What is masked wherever text is shown, stored or sent."""
    keys = {target.key_hint or f"{target.provider} key": target.api_key for target in plan.all}
    headers = [provider.headers for provider in loaded.settings.providers.values()]
    return known_secrets(loaded.environ, keys, headers)


def _offered(settings: Settings, profile: Profile, *, beside: bool) -> tuple[ToolSpec, ...]:
    """The tools on offer, as the profile shows them."""
    unusable = () if settings.checkpoints.enabled else ("checkpoint",)
    if beside or settings.subagents.depth == 0:
        unusable = (*unusable, "delegate")
    names = resolve_toolsets(settings.tools.enabled, (*settings.tools.disabled, *unusable))
    definitions = registry.definitions(names)
    specs = [ToolSpec(each["name"], each["description"], each["parameters"]) for each in definitions]
    return profile.offer(specs)


async def _gate(
    options: Options,
    home: Home,
    settings: Settings,
    inbox: Inbox,
    scratch: Path,
    audit: Recorder,
    tools: Sequence[str],
    around: Surroundings,
    adviser: Adviser | None,
) -> Gate:
    surface = options.surface or ("tui" if options.attended else "oneshot")
    permissions = Permissions(home, options.workspace, surface, tools)
    await asyncio.to_thread(permissions.current)
    return Gate.for_home(
        home,
        options.workspace,
        settings.approvals.mode,
        PersonApprover(inbox, _agent(options), around) if options.attended else None,
        scratch=scratch,
        chosen=options.approve,
        permissions=permissions,
        grants=Grants(options.workspace, home.grants, session=audit.session),
        audit=audit,
        adviser=adviser,
    )


def _context_factory(
    options: Options,
    settings: Settings,
    home: Home,
    store: Store,
    stream: EventStream,
    inbox: Inbox,
    mailbox: Mailbox,
    gate: Gate,
    state: TaskState,
    terminals: Terminals,
    scripts: Scripts,
    steps: Steps | None,
    checkpoints: CheckpointService | None,
    team: Team | None,
) -> Callable[[ToolCall], CallContext]:
    tool_options = _tool_options(settings, home)
    search = store.for_tools()
    acting = apart(options.beside, options.workspace)
    if steps is not None:
        # Agents may number their calls alike.
        acting = partial(steps.acting, session=scripts.session.id)

    def context_for(call: ToolCall) -> CallContext:
        return CallContext(
            call=call.id,
            state=state,
            workspace=options.workspace,
            asker=PersonAsker(inbox, _agent(options)),
            sessions=search,
            terminals=terminals,
            options=tool_options,
            gate=gate,
            emit=stream.emit,
            notice=mailbox.notify,
            inner=scripts.calls(call.id, context_for),
            scripts=scripts.runner,
            acting=acting,
            checkpoints=checkpoints,
            delegates=None if team is None else team.of_main(call.id),
        )

    return context_for


def _tool_options(settings: Settings, home: Home) -> dict[str, Any]:
    """Settings that tools read."""
    return {
        "terminal.timeout": settings.terminal.timeout,
        "terminal.max_timeout": settings.terminal.max_timeout,
        "terminal.env_passthrough": tuple(settings.terminal.env_passthrough),
        "code.timeout": settings.code.timeout,
        "code.max_calls": settings.code.max_calls,
        "code.stdout": settings.code.stdout,
        "code.stderr": settings.code.stderr,
        "code.mode": settings.code.mode,
        "files.protected": (str(home.env), str(home.database), str(home.trust)),
    }


def _agent(options: Options) -> str:
    return options.beside.agent if options.beside is not None else "main"


def _dialogue(
    session: LiveSession,
    routes: Sequence[Route],
    plan: RoutePlan,
    settings: Settings,
    stream: EventStream,
    state: TaskState,
    attachments: AttachmentStore,
) -> Dialogue:
    async def after_compaction() -> None:
        """What was masked can be read again; the task list is shown once more."""
        state.files.clear()
        items = state.todos.items()
        if items:
            await session.add("notice", render(items), {"kind": "todos", "to_model": True})

    return Dialogue(
        session,
        routes,
        plan.profile,
        plan.meter,
        stream.emit,
        attachments=attachments,
        after_compaction=after_compaction,
        policy=RetryPolicy(retries=settings.model.retries),
        mask_at=settings.context.mask_at,
        temperature=plan.profile.temperature
        if settings.model.temperature is None
        else settings.model.temperature,
        max_output=settings.model.max_output or plan.profile.max_output,
    )


async def _attention(
    options: Options,
    settings: Settings,
    stream: EventStream,
    mailbox: Mailbox,
    closers: list[Closer],
    secrets: Mapping[str, str],
) -> Attention | None:
    """The watcher of the workspace, where a person works beside the agent; at rest if it is not wanted."""
    if not options.attended or options.beside is not None:
        return None
    from agent.workspace.attention import Attention

    attention = Attention(options.workspace, stream.emit, mailbox.remember, secrets)
    attention.enabled = settings.watcher.enabled
    if attention.enabled:
        await attention.start()
    closers.append(attention.stop)
    return attention
