"""Opening of an agent: the session's own, a subagent, or the agent of a parallel attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.core.attachments import AttachmentStore
from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.core.messages import ToolCall
from agent.core.store.store import Store
from agent.core.store.stored_path import iterate
from agent.events import Event, TodosChanged, TurnEnded
from agent.integrations.hooks.session_hooks import SessionHooks
from agent.integrations.plugins.session_plugins import SessionPlugins
from agent.integrations.web.services import WebServices
from agent.knowledge.canvas.documents import CanvasDocuments, LiveCanvases
from agent.knowledge.context.compaction import still_shown
from agent.knowledge.context.folder_files import FolderRoom
from agent.knowledge.context.layer import CHARACTERS_PER_TOKEN
from agent.knowledge.context.quarantine import allowed_passages
from agent.knowledge.learnings.at_calls import CallLearnings, SessionLearnings
from agent.knowledge.learnings.learning import LearningEnvironment
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.memory.scopes import project_id, project_root
from agent.knowledge.memory.service import MemoryProvider, SessionMemory
from agent.knowledge.recall.recall import Recall, ToolSearch
from agent.knowledge.skills.catalog import SkillCatalog
from agent.knowledge.skills.keeper import SessionSkills
from agent.knowledge.skills.viewing import CapabilitiesInForce
from agent.model.effort import SessionEffort
from agent.model.protocol import COMPACT, STANDARD, Profile, Thinking, ToolSpec
from agent.model.transport.reply import ModelRoute
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.safety.gate import Gate
from agent.session.conversation.live_session import FoldedMessages, LiveSession
from agent.session.conversation.opening import apart
from agent.session.conversation.script_journal import ScriptJournals
from agent.session.conversation.session_prompt import ensure_system
from agent.session.further_tools import FurtherTools, ToolAccess
from agent.session.turns.attaching import Attached
from agent.session.turns.call_effects import Around, CallEffects, StepOf
from agent.session.turns.call_runner import CallHearers, CallRunner
from agent.session.turns.dialogue import Dialogue, RequestSettings
from agent.session.turns.reached_folders import ReachedFolders
from agent.session.turns.room import Remember, RoomRules
from agent.session.turns.script_calls import Scripts
from agent.session.turns.task_state import TaskState
from agent.session.turns.tool_context import Acting, CallContext, acting_in_turn
from agent.session.turns.turn_helpers import HelpedDiagnostics, TurnHelpers, helping
from agent.session.turns.turn_queue import TurnQueue
from agent.session.turns.turn_runner import StepLimit, TurnHearers, TurnRunner
from agent.session.turns.unasked_changes import UnaskedChanges
from agent.session.wiring.agent_workspace import AgentWorkspace
from agent.session.wiring.session_senses import SessionSenses
from tools.browser.session import Browsers
from tools.code.runner import CodeRunner
from tools.context import (
    Asker,
    Delegates,
    FileMemory,
    Folded,
    InnerCaller,
    MemoryChange,
    MemoryKeeper,
    SessionSearch,
    TodoList,
)
from tools.inner_call import CALL
from tools.registry import Registry
from tools.results import ToolError
from tools.senses.services import Senses
from tools.services.canvases import CanvasBoard
from tools.services.checkpoints import Checkpoints
from tools.services.diagnostics import Diagnostics
from tools.services.editor import EditorSide
from tools.services.job_keeper import JobKeeper
from tools.services.learning_notes import LearningKeeper
from tools.services.service import ServiceTable
from tools.services.skill_keeper import SkillKeeper
from tools.services.training_keeper import TrainingKeeper
from tools.services.web_reader import WebReader
from tools.terminal.terminals import Terminals
from tools.todo_tool import render


@dataclass(frozen=True, slots=True)
class _ShellCaller:
    """Identifies the agent whose shell determines the folder of the next command."""

    task: str
    workspace: Path
    scratch: Path
    options: Mapping[str, Any]


def open_learnings(services: AgentServices, spec: AgentSpec) -> SessionLearnings | None:
    """Open the learnings of an agent; None if the settings disable them. Searches the disk for its project
    root.
    """
    settings, session, place = services.settings.learnings, spec.session, spec.place
    if not settings.enabled:
        return None
    reach = place.reach
    root = project_root(place.origin or reach.workspace)
    caller = _ShellCaller(session.id, reach.workspace, spec.scratch, services.options)

    def cwd() -> Path:
        return reach.terminals.shell(caller).cwd

    around = LearningEnvironment(
        workspace=reach.workspace,
        root=root,
        cwd=cwd,
        search=None if reach.terminals.remote_name else services.environ.get("PATH", ""),
    )
    store = LearningStore(
        session.store.database,
        project_id(root),
        promote_after=settings.promote_after,
        most_candidates=settings.candidates,
    )
    at_calls = CallLearnings(
        store,
        around,
        session.id,
        _newest(session),
        without_lessons(services.registry),
        holds_back=settings.hold_back,
        secrets=reach.secrets,
    )
    return SessionLearnings(store, at_calls, around, session.id, _newest(session), reach.secrets)


def without_lessons(registry: Registry) -> frozenset[str]:
    """Return the tools whose failures are not learned from: they act on the session or ask the user."""
    own = frozenset(entry.name for entry in registry.entries() if entry.toolset == "learnings")
    return own.union(
        registry.with_trait("asks_person"),
        registry.with_trait("sends_agents"),
        registry.with_trait("keeps_notes"),
        registry.with_trait("whole_session"),
    )


def _newest(session: LiveSession) -> Callable[[], int | None]:
    """Return a function that returns the id of the session's newest node, or None."""
    return lambda: session.path[-1].id if session.path else None


MOST_REMEMBERED = 5
"""The maximum number of facts from one summary that are saved beyond the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """The services shared by all agents of a session."""

    store: Store
    recall: Recall
    """Search over messages and notes."""
    home: Home
    settings: Settings
    registry: Registry
    attachments: AttachmentStore
    options: Mapping[str, Any]
    """Settings that tools read, by setting name."""
    notes: MemoryProvider
    """The notes that outlive a session."""
    hooks: SessionHooks
    """Hooks for calls and answers."""
    effort: SessionEffort
    plugins: SessionPlugins | None = None
    """The session's plugins; None without any."""
    skills: SkillCatalog | None = None
    """The skills that can be used; None if they are disabled."""
    senses: SessionSenses | None = None
    """The services for images, audio and speech; None without any."""
    further: FurtherTools | None = None
    """The tools that requests do not show, with the search for them."""
    web: WebServices | None = None
    """The services that read the web; None if there are none."""
    training: TrainingKeeper | None = None
    """The service for training runs."""
    jobs: Callable[[Path], JobKeeper] | None = None
    """Returns the scheduled jobs for an agent that works in this folder."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's environment variables, in which skills look for those that they require."""
    closers: list[Callable[[], Awaitable[None]]]
    """Functions that are called when the session is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """The settings that distinguish an agent from the others of its session."""

    session: LiveSession
    """The agent's conversation, which may have a history."""
    place: AgentWorkspace
    """The agent's workspace, with the services to act there and the recorder of steps."""
    scratch: Path
    """The folder for files too large for the conversation; it is created on first use."""
    tools: tuple[ToolSpec, ...]
    """The tools it is offered, in the form of its profile."""
    searched: tuple[ToolSpec, ...] = ()
    """Further tools that it can call, known when it is opened."""
    fits: Callable[[str], bool] = lambda _name: True
    """Returns whether it may have a tool of the session, given by its name."""
    routes: Sequence[ModelRoute]
    """Metered routes to its models, in the order in which they are tried."""
    profile: Profile
    meter: Meter
    policy: RetryPolicy
    """The rules for retries of a failed request."""
    limit: StepLimit
    gate: Gate
    """Decides on its actions, and asks the user if possible."""
    asker: Asker
    """Receives the agent's questions to the user."""
    turn_queue: TurnQueue
    emit: Callable[[Event], None]
    """Receives the events of the agent."""
    acting: Sequence[Acting] = ()
    """Functions that are called, in order, with every allowed action before it is done."""
    around: Around = nullcontext
    step_of: StepOf | None = None
    checkpoints: Checkpoints | None = None
    memory: SessionMemory | None = None
    """The notes that outlive the session; None if the agent has none."""
    delegates: Callable[[str], Delegates] | None = None
    """Returns the service with which a call, given by its id, starts agents."""
    summary_route: ModelRoute | None = None
    """The route for summaries of its conversation; None for its first model."""
    attach: Callable[[str], Awaitable[Attached]] | None = None
    """Returns the contents of a message's references."""
    supplements: Sequence[Callable[[str], Awaitable[str]]] = ()
    """Functions that return texts for the model in addition to a user message."""
    effort: Thinking | None = None
    """The agent's thinking effort; None means the session's."""
    editor: EditorSide = field(default_factory=EditorSide)
    """The editor whose unsaved buffers it reads and writes."""


@dataclass(slots=True, kw_only=True)
class Agent:
    """An agent that works on one message after another."""

    session: LiveSession
    turn_queue: TurnQueue
    turns: TurnRunner
    dialogue: Dialogue
    moved: Callable[[str], Awaitable[None]]
    """Called with the reason after the conversation was replaced."""
    is_renewed: bool
    """True if a resumed conversation needed a new system prompt."""
    helpers: TurnHelpers
    """The helpers of its turns."""

    async def run(self, text: str) -> TurnEnded:
        """Work on a message; return how the turn ended. Never raises; a cancel ends it as interrupted."""
        return await self.turns.run(text)

    def last_words(self) -> str:
        """Return the last text that the agent wrote; empty if there is none."""
        said = (node for node in reversed(self.session.path) if node.kind == "assistant")
        return next((node.content for node in said if node.content.strip()), "")


async def open_agent(services: AgentServices, spec: AgentSpec) -> Agent:
    """Return an agent that is ready for its first turn. Raises `HermesError`."""
    session, place, tools = spec.session, spec.place, spec.tools
    skills = _skills(services, spec)
    if skills is not None:
        spec = replace(spec, gate=spec.gate.within(skills.in_force.limit))
    session.position = place.position
    past = (node.data for node in iterate(session.path[:], "assistant"))
    await asyncio.to_thread(spec.meter.add_past, past)

    profile = spec.profile

    async def renew_system() -> bool:
        workspace = place.reach.workspace
        return await ensure_system(
            session,
            workspace,
            services.home,
            services.settings,
            profile,
            tools,
            services.notes,
            spec.meter.window,
            services.plugins,
            searched=[tool.name for tool in spec.searched],
        )

    is_renewed = await renew_system()
    todos = TodoList(session.todos(), lambda items: spec.emit(TodosChanged(items=items)))
    canvases = LiveCanvases(CanvasDocuments(services.home.canvas), session.id, session.canvases(), spec.emit)
    state = TaskState(session.id, spec.scratch, todos, canvases, place.reach.secrets)
    state.files.restore(await asyncio.to_thread(still_shown, session.path[:]))
    journals = ScriptJournals(services.home.scripts / session.id)
    unasked = UnaskedChanges(place.steps, spec.emit, place.origins, place.reach.settings)
    learnings = await asyncio.to_thread(open_learnings, services, spec)
    folders = await asyncio.to_thread(_folders, services, spec)
    helpers = TurnHelpers(spec.emit)
    offered = frozenset(tool.name for tool in tools)
    further = None
    if services.further is not None and CALL in offered:
        further = services.further.of_agent(spec.fits, offered)
    access = ToolAccess(
        services.registry,
        offered,
        profile.result_limit,
        further,
        None if skills is None else skills.in_force,
    )
    scripts = Scripts(
        runner=place.reach.scripts,
        access=access,
        specs=(*tools, *spec.searched),
        session=session,
        emit=spec.emit,
        secrets=place.reach.secrets,
        confined=place.reach.confined,
        hooks=services.hooks,
        journals=journals,
        helpers=helpers,
    )
    table = _service_table(services, spec, state, helpers)
    table.add(LearningKeeper, learnings)
    table.add(FurtherTools, further)
    if skills is not None:
        table.add_for_call(SkillKeeper, lambda call: skills.of_call(call.call))
    table.add_for_call(InnerCaller, lambda call: scripts.calls(call.call, context_for))
    away = () if place.origin is None else (apart(place.origin, place.reach.workspace),)
    hears = (*away, *spec.acting, helping(helpers, folders.acting), *place.before_programs)
    acting = acting_in_turn([*hears, place.keep_files(session.id, has_hooks=bool(services.hooks))])

    def context_for(call: ToolCall) -> CallContext:
        return CallContext(
            call=call.id,
            state=state,
            workspace=place.reach.workspace,
            options=services.options,
            gate=spec.gate,
            emit=spec.emit,
            notice=spec.turn_queue.notify,
            services=table,
            acting=acting,
            allowed=unasked.allow,
        )

    @asynccontextmanager
    async def around(call: str) -> AsyncIterator[None]:
        async with spec.around(call), place.claim(call, spec.emit):
            yield

    effects = CallEffects(
        session=session.id,
        steps=place.steps,
        unasked=unasked,
        helpers=helpers,
        around=around,
        step_of=spec.step_of,
        settled=place.reach.scripts.prepare_next,
    )
    hearers = CallHearers(
        hooks=services.hooks,
        learnings=None if learnings is None else learnings.at_calls,
        folders=folders,
        left_by=journals.left_by,
    )
    parallel = services.settings.agent.parallel_calls
    calls = CallRunner(session, access, context_for, state, effects, hearers, helpers, parallel)

    async def shrink() -> Sequence[ToolSpec]:
        nonlocal profile, tools
        profile, tools = COMPACT, COMPACT.offer((*tools, *spec.searched))
        access.offer((tool.name for tool in tools), profile.result_limit)
        await renew_system()
        return tools

    dialogue = _dialogue(services, spec, state, folders, helpers, shrink)
    turns = TurnRunner(
        session,
        dialogue,
        calls,
        spec.turn_queue,
        spec.profile,
        spec.limit,
        TurnHearers(
            hooks=services.hooks,
            memory=spec.memory,
            skills=skills,
            supplements=spec.supplements,
            attach=spec.attach,
        ),
        helpers,
    )

    async def follow_move(reason: str) -> None:
        state.files.clear()
        folders.renew()
        todos.replace(session.todos())
        canvases.replace(session.canvases())
        await renew_system()
        await dialogue.begin_again(reason)

    return Agent(
        session=session,
        turn_queue=spec.turn_queue,
        turns=turns,
        dialogue=dialogue,
        moved=follow_move,
        is_renewed=is_renewed,
        helpers=helpers,
    )


def _folders(services: AgentServices, spec: AgentSpec) -> ReachedFolders:
    """Return the service that adds project instructions from the folders that an agent's calls reach.

    Searches the disk for the project root.
    """
    context, reach = services.settings.context, spec.place.reach
    room = FolderRoom(
        file=context.file_chars if spec.profile.context_files else 0,
        layer=min(context.budgets.project, spec.profile.result_limit // CHARACTERS_PER_TOKEN),
        allowed=allowed_passages(services.home),
    )
    return ReachedFolders(
        reach.workspace,
        room,
        lambda: spec.session.path,
        spec.emit,
        follows_shell=not reach.terminals.remote_name,
    )


def _skills(services: AgentServices, spec: AgentSpec) -> SessionSkills | None:
    """Return the skills of an agent; None if the session has no skills. What a skill permits applies to that
    agent and turn only.
    """
    if services.skills is None:
        return None
    registry = services.registry
    harmless = ("reads_skills", "keeps_notes", "asks_person")
    return SessionSkills(
        catalog=services.skills,
        environ=services.environ,
        passed=tuple(services.settings.terminal.env_passthrough),
        tools=registry.names(),
        in_force=CapabilitiesInForce(frozenset().union(*(registry.with_trait(each) for each in harmless))),
        writing=spec.place.keep_files(spec.session.id),
        emit=spec.emit,
    )


def _service_table(
    services: AgentServices, spec: AgentSpec, state: TaskState, helpers: TurnHelpers
) -> ServiceTable[CallContext]:
    """Return the table of services that an agent's tools can request."""
    reach, web, memory, delegates = spec.place.reach, services.web, spec.memory, spec.delegates
    table = ServiceTable[CallContext](services.closers)
    table.add(Asker, spec.asker)
    table.add(TodoList, state.todos)
    table.add(CanvasBoard, state.canvases)
    table.add_for_call(FileMemory, lambda call: call.script_files or state.files.of_call(call.call))
    table.add(SessionSearch, ToolSearch(services.recall, services.store))
    table.add(Folded, FoldedMessages(spec.session))
    table.add(Terminals, reach.terminals)
    table.add(Browsers, reach.browsers)
    table.add(CodeRunner, reach.scripts)
    table.add(EditorSide, spec.editor)
    # A script that edits many files is not held up.
    checks, unchecked = HelpedDiagnostics(reach.diagnostics, helpers), Diagnostics()
    table.add_for_call(Diagnostics, lambda call: checks if call.script_files is None else unchecked)
    table.add(Checkpoints, spec.checkpoints)
    table.add(JobKeeper, services.jobs and services.jobs(reach.workspace))
    table.add(TrainingKeeper, services.training)
    table.add(Senses, services.senses and services.senses.of_agent(spec.routes, spec.turn_queue))
    table.add_for_call(MemoryKeeper, memory and (lambda call: memory.of_call(call.call)))
    table.add_for_call(Delegates, delegates and (lambda call: delegates(call.call)))
    table.add_for_call(WebReader, web and partial(_call_web, web))
    return table


def _call_web(web: WebServices, call: CallContext) -> WebReader:
    from agent.integrations.web.call_web import CallWeb

    return CallWeb(
        services=web,
        ask=call.permit,
        agreed=call.permit_agreed,
        opens=call.gate.opens,
        scratch=lambda: call.scratch,
        progress=call.progress,
    )


def _remember(spec: AgentSpec) -> Remember | None:
    """Return a function that saves facts from a summary; None for an agent without notes."""
    memory = spec.memory
    if memory is None or "memory" not in {tool.name for tool in (*spec.tools, *spec.searched)}:
        return None

    async def remember(facts: Sequence[tuple[str, str]]) -> int:
        kept = 0
        for scope, fact in facts[:MOST_REMEMBERED]:
            try:
                await memory.of_call("compaction").write(scope, [MemoryChange("add", fact)])
                kept += 1
            except ToolError:
                continue
        return kept

    return remember


def _dialogue(
    services: AgentServices,
    spec: AgentSpec,
    state: TaskState,
    folders: ReachedFolders,
    helpers: TurnHelpers,
    shrink: Callable[[], Awaitable[Sequence[ToolSpec]]],
) -> Dialogue:
    settings, profile, session = services.settings, spec.profile, spec.session

    async def compacted() -> None:
        """Forget lines of files that were removed from the conversation, and add the task list again."""
        state.files.limit_lines(set(still_shown(session.path)))
        folders.renew()
        if items := state.todos.items():
            await session.add("notice", render(items), {"kind": "todos", "to_model": True})

    temperature = settings.model.temperature
    return Dialogue(
        session,
        [replace(route, tools=spec.tools, searched=spec.searched) for route in spec.routes],
        profile,
        spec.meter,
        services.attachments,
        RequestSettings(
            policy=spec.policy,
            temperature=profile.temperature if temperature is None else temperature,
            max_output=settings.model.max_output or profile.max_output,
            thinking=lambda: services.effort.level if spec.effort is None else spec.effort,
            extra={"return_token_ids": True, "logprobs": True} if settings.model.token_ids else {},
        ),
        RoomRules(
            threshold=settings.context.mask_at,
            words=settings.context.words_share,
            summary_route=spec.summary_route,
            remember=_remember(spec),
            compacted=compacted,
            shrink=shrink if profile is STANDARD else None,
        ),
        helpers,
    )
