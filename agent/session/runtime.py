"""The composition root: builds the services of one session and wires them together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agent.core.attachments import AttachmentStore
from agent.core.config.known_secrets import known_secrets
from agent.core.home import Home, private_folder
from agent.core.listeners import Listener
from agent.core.store.connection import Database
from agent.core.store.store import Store
from agent.errors import ConfigError
from agent.events import (
    AssistantMessageAdded,
    Noticed,
    SessionOpened,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent.integrations.hooks.session_hooks import HEARD, HookConsent, SessionHooks
from agent.integrations.mcp.tools import prompt_text
from agent.integrations.plugins.shelf import catalog_for
from agent.integrations.web.services import WebServices, open_web
from agent.knowledge.memory.service import SessionMemory
from agent.knowledge.recall.recall import Recall
from agent.knowledge.skills.viewing import SaveOffer
from agent.model.effort import SessionEffort
from agent.model.providers import secret_variables
from agent.model.transport.waits import RetryPolicy
from agent.safety.sandbox.caches import sweep_over
from agent.safety.sandbox.opening import probe
from agent.session.attempts.parallel_attempts import ParallelAttempts
from agent.session.conversation.opening import start_sweep
from agent.session.conversation.opening_events import announce, permission_problems, problems_of
from agent.session.conversation.session_folder import SessionFolder, move, session_folder
from agent.session.conversation.session_prompt import kept_back
from agent.session.engine import Engine
from agent.session.history.navigation import HistoryNavigation
from agent.session.history.session_checkpoints import CheckpointService, open_recorder
from agent.session.options import Options
from agent.session.pending_requests import PendingRequests
from agent.session.spending.decisions import CeilingQuestions, Decisions
from agent.session.stream import EventStream
from agent.session.subagents.agent_copies import AgentCopies, AgentWorkspaces, NoCopies
from agent.session.subagents.agent_models import AgentModels, KnownModels
from agent.session.subagents.definitions import Definitions
from agent.session.subagents.forecast import FirstRequest
from agent.session.subagents.foreign_program import foreign_programs
from agent.session.subagents.mentions import Mentions
from agent.session.subagents.session_agents import SessionAgents, open_session_agents
from agent.session.subagents.subagent import Services
from agent.session.turns.tool_context import PersonAsker
from agent.session.turns.turn_queue import TurnQueue
from agent.session.turns.turn_runner import StepLimit
from agent.session.turns.unasked_changes import BackgroundChanges
from agent.session.wiring.agent import AgentSpec, open_agent
from agent.session.wiring.agent_workspace import AgentWorkspace
from agent.session.wiring.conversation import Conversation, further_tools, open_conversation
from agent.session.wiring.execution_context import note_settings, open_execution, session_scope
from agent.session.wiring.plugin_memory import open_notes
from agent.session.wiring.plugin_search import plugin_search
from agent.session.wiring.recall import open_meaning, recall_sources
from agent.session.wiring.routes import RoutePlan, plan_routes
from agent.session.wiring.session_plugins import open_plugins
from agent.session.wiring.session_senses import SessionSenses, offer_ready
from agent.session.wiring.session_servers import open_servers, session_references
from agent.session.wiring.shared_services import MAIN_AGENT, NO_AUTOMATION, Automation, Closer, SharedServices
from agent.workspace.cut_off_edits import finish_cut_off, notes_for
from tools.kit.threads import close_all, on_thread, to_the_end
from tools.registry import registry
from tools.services.editor import EditorSide
from tools.terminal.environment import child_environment
from tools.text.safe_text import printable

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.integrations.mcp.service import McpService
    from agent.workspace.change_reporter import ChangeReporter
    from agent.workspace.checkpoints.recorder import StepRecorder as Steps


STORED = (SessionOpened, UserMessageAdded, AssistantMessageAdded, ToolFinished, TurnEnded, Noticed)
"""Events that mean that searchable text may have been stored."""


async def open_engine(
    options: Options,
    *listeners: Listener,
    environ: Mapping[str, str] = os.environ,
    database: Database | None = None,
    automation: Automation = NO_AUTOMATION,
) -> Engine:
    """Open a session, new or resumed, and return its engine, ready for the first message.

    Uses `database`, or a new connection without it. Raises a `HermesError` if there is no model, no usable
    store, or no such session.
    """
    home = Home.locate(dict(environ))
    private_folder(home.root)
    folder = await session_folder(options, home, database)
    options = folder.options
    loaded = await asyncio.to_thread(_load_settings, home, dict(environ), options)
    # Nothing needs its result before the gate is opened, and most of its time other programs work.
    boundary_test = on_thread(probe, loaded.settings.sandbox.mode)

    async def end_test() -> None:
        await to_the_end(boundary_test)

    closers: list[Closer] = [end_test]
    try:
        plan = await plan_routes(loaded.settings, loaded.environ, options.model, loaded.problems, home)
        problems = await asyncio.to_thread(problems_of, loaded, plan, home, options.workspace)
        stream = EventStream()
        for listener in listeners:
            stream.subscribe(listener)
        secrets = _secrets(loaded, plan)
        store = await Store.open(home.database, secrets=secrets, shared=database)
        closers.append(store.close)
        plugins = await open_plugins(home, options.workspace, loaded, secrets, stream.emit)
        closers.append(plugins.aclose)
        notes, wrong = await open_notes(home, options.workspace, loaded.settings, plugins)
        problems += wrong
        recall = Recall(
            store,
            sources=recall_sources(store, home, options.workspace, loaded.settings, notes),
            meaning=open_meaning(store, loaded.settings, loaded.environ),
        )
        stream.subscribe(lambda _event: recall.index_soon(), *STORED)
        closers[2:2] = [recall.close, start_sweep(home.copies, store)]
        base = SharedServices(
            options=options,
            home=home,
            settings=loaded.settings,
            hooks=loaded.hooks,
            plan=plan,
            environ=environ,
            variables=loaded.environ,
            store=store,
            recall=recall,
            notes=notes,
            tools=registry.copy(),
            plugins=plugins,
            stream=stream,
            secrets=secrets,
            closers=closers,
        )
        return await _assemble(base, problems, folder, automation)
    except BaseException:
        with suppress(Exception, asyncio.CancelledError):
            await close_all(reversed(closers))
        raise


def _load_settings(home: Home, environ: dict[str, str], options: Options) -> LoadedSettings:
    """Return the settings, their problems, and the environment including `.env`. Reads files."""
    from agent.core.config.loader import load

    return load(home, environ, options.workspace, chosen=options.settings)


def _secrets(loaded: LoadedSettings, plan: RoutePlan) -> dict[str, str]:
    """Return the secrets, by name, that are masked in all text shown, stored or sent."""
    keys = {target.key_hint or f"{target.provider} key": target.api_key for target in plan.all}
    providers = loaded.settings.providers.values()
    headers = [provider.headers for provider in providers]
    # Agents may be sent to models that the session itself does not ask.
    named = [name for each in providers for name in (each.api_key_env, *each.more_key_envs) if name]
    named += [name for each in providers for name in secret_variables(each)]
    keys |= {name: loaded.environ.get(name, "") for name in named}
    return known_secrets(loaded.environ, keys, headers)


async def _assemble(
    base: SharedServices, problems: Sequence[str], folder: SessionFolder, automation: Automation
) -> Engine:
    programs, wrong = foreign_programs(base.settings.agents)
    problems = [*problems, *wrong]
    kinds_of_settings = tuple(each.definition for each in programs.values())
    definitions = Definitions(base.home, base.options.workspace, kinds_of_settings)
    kinds = await asyncio.to_thread(definitions.load)
    named = [(each.name, each.description) for each in kinds.definitions.values()]
    base.plugins.offer(base.tools)
    await asyncio.to_thread(offer_ready, base)
    training = automation.training(base)
    servers, answers, told_of_servers, arrivals = await open_servers(base)
    further = further_tools(base)
    note_settings(base)
    talk = await open_conversation(base, named, servers)
    if base.options.attended and base.settings.skills.enabled and base.settings.skills.offer:
        base.stream.subscribe(SaveOffer(base.emit), TurnStarted, ToolFinished, TurnEnded)
    session, opened = talk.session, talk.opened
    if folder.left:
        await move(session, folder.left, base.options.workspace, owned=opened.owned)
    pending_requests = PendingRequests(base.emit, attended=base.options.attended, secrets=base.secrets)
    turn_queue = TurnQueue(base.emit)
    decisions = await _decisions(base, talk)
    ceiling_questions = CeilingQuestions(pending_requests, base.emit, decisions)
    talk.metering.reached = partial(ceiling_questions.ask, agent=MAIN_AGENT)
    # Opened before the acting services: it closes after them, and the gate needs to know if undo exists.
    steps = await _steps(base, talk, turn_queue)
    looks: list[BackgroundChanges] = []
    base.closers.append(partial(_look_again, looks))
    scope = session_scope(base, talk, pending_requests, steps=steps is not None)
    place = AgentWorkspace(reach=await open_execution(base, talk, scope))
    answers.begin(base, talk, place.reach.gate, PersonAsker(pending_requests, MAIN_AGENT))
    watch = await _watch(base, turn_queue)
    if steps is not None:
        if watch is not None:
            steps.own_work, watch.earlier = partial(watch.during, ""), steps.telling
        place.keep_steps(steps, base.home.scripts / session.id)
        looks.append(_background(base, place, steps, turn_queue))
        place.before_programs = [looks[0].acting, *place.before_programs]
    hooks, waiting = await _hooks(base, talk)
    services = replace(
        _services(base, talk, place, pending_requests, ceiling_questions, definitions, steps, hooks),
        web=_web(base),
        further=further,
        programs=programs,
        training=training,
        jobs=automation.jobs and partial(automation.jobs, base),
    )
    team = _team(
        services, talk, turn_queue, FirstRequest(base.plan.meter.estimate, session.system), base.closers
    )
    spec = _spec(base, talk, place, pending_requests, turn_queue, servers, services.web)
    supplements = [partial(prompt_text, servers, place.reach.scratch)]
    spec = replace(spec, supplements=[*filter(None, [arrivals]), *supplements])
    if team is not None:
        supplements = [*spec.supplements, Mentions(definitions, base.options.workspace)]
        spec = replace(spec, delegates=team.of_main, step_of=team.step_of, supplements=supplements)
    if steps is not None:
        spec = replace(spec, checkpoints=CheckpointService(session, steps, lambda: travel))
        if base.options.editor is not None:
            base.options.editor.known_texts.former = steps.former
    if watch is not None:
        place.claim = watch.during
    agent = await open_agent(services, spec)
    travel = HistoryNavigation(session, steps, base.emit, agent.moved)
    attempts = None
    if steps is not None:
        attempts = ParallelAttempts(session, steps, travel, services, spec.limit.steps)
        base.closers.append(attempts.close)
    gate = place.reach.gate
    told = [
        *filter(None, [folder.told]),
        *problems,
        *base.plugins.problems,
        *told_of_servers,
        *waiting,
        *talk.told,
    ]
    told += [*permission_problems(gate.policy), *kinds.notices(), *kept_back(session)]
    announce(
        base.stream,
        session,
        opened,
        talk.routes[0],
        gate.mode,
        place.reach.runs_in,
        agent.is_renewed,
        told,
        services.effort.word,
        folder.left,
    )
    if team is not None and opened.owned:
        await team.find_again()
    scheduler = None if team is None else team.scheduler
    return Engine(base, services, agent, travel, watch, servers, attempts, scheduler)


def _web(base: SharedServices) -> WebServices:
    """Return the services with which all agents of the session read the web."""
    web = open_web(
        base.home,
        base.settings.web,
        environ=base.environ,
        variables=base.variables,
        secrets=base.secrets,
        brought=plugin_search(base.plugins),
    )
    base.closers.append(web.close)
    return web


def _spec(
    base: SharedServices,
    talk: Conversation,
    place: AgentWorkspace,
    pending_requests: PendingRequests,
    turn_queue: TurnQueue,
    servers: McpService,
    web: WebServices | None,
) -> AgentSpec:
    """Return the specification of the session's own agent."""
    asker = PersonAsker(pending_requests, MAIN_AGENT)
    session = talk.session
    asks = base.settings.memory.write_approval == "ask"
    memory = SessionMemory(
        base.notes,
        session.id,
        lambda: session.path[-1].id if session.path else None,
        asker,
        asks,
        place.keep_files(session.id),
    )
    return AgentSpec(
        session=talk.session,
        place=place,
        scratch=place.reach.scratch,
        tools=talk.tools,
        searched=talk.searched,
        routes=talk.metering.routes(talk.routes),
        summary_route=next(
            iter(talk.metering.routes([talk.summary_route] if talk.summary_route else [])), None
        ),
        profile=base.plan.profile,
        meter=base.plan.meter,
        policy=RetryPolicy(retries=base.settings.model.retries),
        limit=StepLimit(steps=base.options.max_steps or base.settings.agent.max_turns),
        gate=place.reach.gate,
        asker=asker,
        memory=memory,
        turn_queue=turn_queue,
        emit=base.emit,
        attach=session_references(base, place, servers, web),
        editor=base.options.editor or EditorSide(),
    )


async def _decisions(base: SharedServices, talk: Conversation) -> Decisions:
    """Return the user's stored decisions for the whole session, applied to its ceilings."""
    decisions = Decisions(talk.session, base.emit)
    if talk.opened.path:
        await decisions.recall()
        ceilings = talk.metering.spending.session
        decisions.apply(ceilings.owner, ceilings)
    return decisions


def _background(
    base: SharedServices, place: AgentWorkspace, steps: Steps, turn_queue: TurnQueue
) -> BackgroundChanges:
    """Return the service that finds the file changes of background programs."""

    def tell(text: str) -> None:
        base.emit(Noticed(kind="warning", text=text))
        turn_queue.remember(f"[{text}]")

    return BackgroundChanges(steps, place.reach.terminals, place.reach.closed_places, tell)


async def _look_again(looks: Sequence[BackgroundChanges]) -> None:
    """Find the changes of background programs once all have ended, while steps are still recorded."""
    for each in looks:
        await each.aclose()


async def _steps(base: SharedServices, talk: Conversation, turn_queue: TurnQueue) -> Steps | None:
    """Open and return the recorder of file changes, or None. Finishes interrupted changes first."""
    # Before the recorder compares: then the changes of a cut-off call are complete.
    for text in await asyncio.to_thread(finish_cut_off, base.home):
        base.emit(Noticed(kind="recovery", text=text))
    if talk.opened.path:
        notes = await asyncio.to_thread(notes_for, base.home, talk.session.id, base.options.workspace)
        for text in notes:
            turn_queue.remember(f"[{text}]")
    return await open_recorder(
        base.home,
        base.options.workspace,
        talk.session.id,
        base.settings.checkpoints,
        base.emit,
        turn_queue.remember,
        talk.opened.interrupted,
        base.closers,
        # Going back leads to an end that is older than what was done since.
        since=max(talk.opened.path[-1].created, talk.opened.used) if talk.opened.path else None,
        waits=not base.options.attended,
        tidy=partial(sweep_over, base.home, base.settings.sandbox),
    )


async def _watch(base: SharedServices, turn_queue: TurnQueue) -> ChangeReporter | None:
    """Return the watcher of the workspace for changes by the user; None in an unattended session."""
    options = base.options
    if not options.attended:
        return None
    from agent.workspace.change_reporter import ChangeReporter

    attention = ChangeReporter(
        options.workspace, base.emit, turn_queue.remember, base.secrets, base.home.root
    )
    attention.enabled = base.settings.watcher.enabled
    if attention.enabled:
        await attention.start()
    base.closers.append(attention.stop)
    return attention


async def _hooks(base: SharedServices, talk: Conversation) -> tuple[SessionHooks, list[str]]:
    """Return the hooks of the user and of plugins, and notices about hooks without consent."""
    agreed = (
        await asyncio.to_thread(HookConsent(base.home.hooks).agreed_digests) if base.hooks else frozenset()
    )
    active = [hook for hook in base.hooks if hook.digest in agreed]
    environment = child_environment(base.environ, base.settings.terminal.env_passthrough)
    all_hooks = [*active, *base.plugins.hooks()]
    hooks = SessionHooks(all_hooks, talk.session.id, base.options.workspace, environment, base.emit)
    if all_hooks:
        base.stream.subscribe(hooks.handle_event, *HEARD)
        if base.options.after:
            hooks.notify("session_reset", before=base.options.after)
        base.closers.append(hooks.close)
    missing = len(base.hooks) - len(active)
    if not missing:
        return hooks, []
    which = "A hook of the settings was" if missing == 1 else f"{missing} hooks of the settings were"
    return hooks, [f"{which} not agreed to and will not run; see `hermes hooks list`."]


def _services(
    base: SharedServices,
    talk: Conversation,
    place: AgentWorkspace,
    pending_requests: PendingRequests,
    ceiling_questions: CeilingQuestions,
    definitions: Definitions,
    steps: Steps | None,
    hooks: SessionHooks,
) -> Services:
    """Return the services shared by the agents of the session."""
    copies = NoCopies()
    if steps is not None:
        copies = AgentCopies(base.store, talk.session.id, steps, base.home.copies, base.emit)
    models = _models(base, talk)
    return Services(
        store=base.store,
        recall=base.recall,
        notes=base.notes,
        home=base.home,
        settings=base.settings,
        registry=base.tools,
        attachments=AttachmentStore(base.home.attachments),
        options=base.tool_options(),
        hooks=hooks,
        effort=_effort(base, talk),
        plugins=base.plugins,
        skills=catalog_for(base.home, base.options.workspace, base.settings, base.plugins.skill_folders()),
        environ=base.variables,
        root=talk.session.id,
        models=models,
        senses=SessionSenses(base, talk, models.voice),
        metering=talk.metering,
        definitions=definitions,
        tools=talk.tools,
        searched=talk.searched,
        emit=base.emit,
        closers=base.closers,
        pending_requests=pending_requests,
        ceiling_questions=ceiling_questions,
        workspaces=AgentWorkspaces(place, copies, partial(open_execution, base, talk)),
    )


def _effort(base: SharedServices, talk: Conversation) -> SessionEffort:
    """Return the effort from `--effort`, the last choice, or the settings. Raises `ConfigError`."""
    effort = SessionEffort.of(base.settings.model.thinking, talk.session.path)
    if base.options.effort is not None:
        try:
            effort.choose(base.options.effort)
        except ValueError as error:
            raise ConfigError(f"--effort cannot be {printable(base.options.effort)[:40]}: {error}.") from None
    return effort


def _team(
    services: Services,
    talk: Conversation,
    turn_queue: TurnQueue,
    beginning: FirstRequest,
    closers: list[Closer],
) -> SessionAgents | None:
    """Return the service for the agents that the session may start; None if it may start none."""
    settings = services.settings.subagents
    if settings.depth == 0:
        return None
    team = open_session_agents(services, settings, turn_queue, beginning, talk.metering.account)
    closers.append(team.scheduler.aclose)
    return team


def _models(base: SharedServices, talk: Conversation) -> AgentModels:
    """Return the models that agents can use."""
    own = {target.label: target.info for target in base.plan.targets}
    models = AgentModels(
        base.plan,
        talk.routes,
        talk.tools,
        KnownModels(own, talk.metering.spending.prices),
        settings=base.settings,
        environ=base.variables,
        home=base.home,
        emit=base.emit,
    )
    base.closers.append(models.aclose)
    return models
