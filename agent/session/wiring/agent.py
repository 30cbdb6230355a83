"""Opening of an agent: the session's own, a sent one, or one of a parallel attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.attachments import AttachmentStore
from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.core.messages import ToolCall
from agent.core.store.store import Store
from agent.events import Event, TurnEnded
from agent.integrations.plugins.session_plugins import SessionPlugins
from agent.integrations.web.services import WebServices
from agent.knowledge.canvas.documents import CanvasDocuments, LiveCanvases
from agent.knowledge.context.compaction import still_shown
from agent.knowledge.context.folder_files import FolderRoom
from agent.knowledge.context.layer import CHARACTERS_PER_TOKEN
from agent.knowledge.context.quarantine import allowed_passages
from agent.knowledge.learnings.at_calls import CallLearnings
from agent.knowledge.learnings.environment import LearningEnvironment
from agent.knowledge.learnings.keeper import SessionLearnings
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.memory.scopes import project_id, project_root
from agent.knowledge.memory.service import MemoryProvider
from agent.knowledge.recall.recall import Recall
from agent.knowledge.recall.tool_search import ToolSearch
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
from agent.session.further_tools import FurtherTools
from agent.session.turns.attaching import Attached, nothing_attached
from agent.session.turns.call_runner import CallHooks, CallRunner, ContextFor, StepOf
from agent.session.turns.dialogue import Dialogue
from agent.session.turns.reached_folders import ReachedFolders
from agent.session.turns.room import Remember
from agent.session.turns.script_calls import Scripts
from agent.session.turns.task_state import LiveTodos, TaskState
from agent.session.turns.tool_context import Acting, CallContext, acting_in_turn
from agent.session.turns.turn_helpers import HelpedDiagnostics, TurnHelpers, helping
from agent.session.turns.turn_queue import TurnQueue
from agent.session.turns.turn_runner import TurnRunner
from agent.session.turns.unasked_changes import UnaskedChanges
from agent.session.wiring.absent import (
    NO_CHECKPOINTS,
    NO_DELEGATES,
    NO_JOBS,
    NO_LEARNINGS,
    NO_MEMORY,
    NO_SENSES,
    NO_SKILLS,
    NO_TRAINING,
    Around,
    AtCalls,
    NothingLearned,
    NoWatch,
    no_more_steps,
    no_step,
    nothing_begins,
    nothing_meant,
    nothing_refused,
)
from agent.session.wiring.agent_workspace import AgentWorkspace
from agent.session.wiring.session_senses import SessionSenses
from tools.context import Asker, Delegates, MemoryChange, MemoryKeeper
from tools.registry import Registry
from tools.results import ToolError
from tools.services.checkpoints import Checkpoints
from tools.services.editor import NO_EDITOR, EditorSide
from tools.services.job_keeper import JobKeeper
from tools.services.learning_notes import LearningKeeper
from tools.services.training_keeper import TrainingKeeper
from tools.todo_tool import render

if TYPE_CHECKING:
    from agent.core.config.schema import LearningSettings


@dataclass(frozen=True, slots=True)
class AgentLearnings:
    """Learnings of one agent: checks at its calls, and the service for its tools."""

    at_calls: AtCalls = NothingLearned()  # noqa: RUF009 - has no state
    keeper: LearningKeeper = NO_LEARNINGS


@dataclass(frozen=True, slots=True)
class _ShellCaller:
    """The agent whose shell determines the folder of the next command."""

    task: str
    workspace: Path
    scratch: Path
    options: Mapping[str, Any]


def open_learnings(
    settings: LearningSettings,
    session: LiveSession,
    place: AgentWorkspace,
    scratch: Path,
    registry: Registry,
    options: Mapping[str, Any],
    search: str,
) -> AgentLearnings:
    """Open the learnings of an agent that works at `place`. Searches the root of its project on disk.

    `search` is the path along which programs are looked for on this machine.
    """
    if not settings.enabled:
        return AgentLearnings()
    reach = place.reach
    root = project_root(place.origin or reach.workspace)
    caller = _ShellCaller(session.id, reach.workspace, scratch, options)

    def cwd() -> Path:
        return reach.terminals.shell(caller).cwd

    around = LearningEnvironment(
        workspace=reach.workspace,
        root=root,
        cwd=cwd,
        search=None if reach.terminals.elsewhere else search,
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
        without_lessons(registry),
        holds_back=settings.hold_back,
        secrets=reach.secrets,
    )
    return AgentLearnings(
        at_calls, SessionLearnings(store, at_calls, around, session.id, _newest(session), reach.secrets)
    )


def without_lessons(registry: Registry) -> frozenset[str]:
    """Return the tools whose failures teach nothing: they act on the session, or ask somebody."""
    own = frozenset(entry.name for entry in registry.entries() if entry.toolset == "learnings")
    return own.union(
        registry.with_trait("asks_person"),
        registry.with_trait("sends_agents"),
        registry.with_trait("keeps_notes"),
        registry.with_trait("whole_session"),
    )


def _newest(session: LiveSession) -> Callable[[], int | None]:
    """Return a function that returns the id of the session's newest node."""
    return lambda: session.path[-1].id if session.path else None


MOST_REMEMBERED = 5
"""Facts of one summary that are kept beyond the session."""


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
    """Settings that tools read, by their names."""
    notes: MemoryProvider
    """The notes that outlive a session."""
    hooks: CallHooks
    """Hooks for calls and answers."""
    effort: SessionEffort
    plugins: SessionPlugins | None = None
    """The session's plugins; None without any."""
    skills: SkillCatalog | None = None
    """The skills that can be used; None where they are switched off."""
    senses: SessionSenses | None = None
    """The services that see, draw and speak; None without any."""
    further: FurtherTools | None = None
    """The tools of servers and plugins that are reached through `tool_call`."""
    web: WebServices | None = None
    """The services that read the web; None without any."""
    training: TrainingKeeper = NO_TRAINING
    """The service for training runs."""
    jobs: Callable[[Path], JobKeeper] = lambda _: NO_JOBS
    """The jobs of the home, for an agent that works in a folder."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The person's variables, by which skills report missing ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """The settings that distinguish an agent from the others of its session."""

    session: LiveSession
    """Its conversation, which may have a history."""
    place: AgentWorkspace
    """Its workspace, its means to act there, and the recorder of its steps."""
    scratch: Path
    """Its folder for files too large for the conversation; made when first needed."""
    tools: tuple[ToolSpec, ...]
    """The tools it is offered, in the form of its profile."""
    routes: Sequence[ModelRoute]
    """Metered routes to its models, in order."""
    profile: Profile
    meter: Meter
    policy: RetryPolicy
    """The policy for retrying failed requests."""
    max_steps: int
    """Requests of one turn."""
    more: Callable[[], Awaitable[int]] = no_more_steps
    """Called for further steps when those are used up."""
    gate: Gate
    """Decides on its actions, and asks the person if possible."""
    asker: Asker
    """Receives its questions."""
    turn_queue: TurnQueue
    emit: Callable[[Event], None]
    """Receives its events."""
    acting: Sequence[Acting] = ()
    """Each is called, in order, with every allowed action before it runs."""
    around: Around = NoWatch()  # noqa: RUF009 - has no state
    """A context around calls that may change something."""
    step_of: StepOf = no_step
    """Returns the step of a call that let other code change files, such as a merge."""
    checkpoints: Checkpoints = NO_CHECKPOINTS
    memory: Callable[[str], MemoryKeeper] = lambda _call: NO_MEMORY
    """By call: its notes that outlive the session."""
    delegates: Callable[[str], Delegates] = lambda _call: NO_DELEGATES
    """By call: the service with which it sends agents."""
    summary_route: ModelRoute | None = None
    """The route for summaries when its conversation is folded; None: its first model."""
    attach: Callable[[str], Awaitable[Attached]] = nothing_attached
    """Returns the contents of a message's references."""
    meant: Callable[[str], Awaitable[str]] = nothing_meant
    """Returns extra text for the model about a message of the person."""
    effort: Thinking | None = None
    """Its thinking effort; None: the session's."""
    editor: EditorSide = NO_EDITOR
    """The editor in whose buffers it reads and writes."""
    beginning: Callable[[], None] = nothing_begins
    """Called when a turn begins."""


@dataclass(slots=True, kw_only=True)
class Agent:
    """An agent that works on one message after the other."""

    session: LiveSession
    turn_queue: TurnQueue
    turns: TurnRunner
    dialogue: Dialogue
    moved: Callable[[str], Awaitable[None]]
    """Called, with the reason, when the conversation has been replaced."""
    is_renewed: bool
    """True if a resumed conversation needed a new system prompt."""
    helpers: TurnHelpers
    """The helpers of its turns."""

    async def run(self, text: str) -> TurnEnded:
        """Work on a message until the turn ends. Never raises; a cancelled task ends as interrupted."""
        return await self.turns.run(text)

    def last_words(self) -> str:
        """Return the agent's last text."""
        said = (node for node in reversed(self.session.path) if node.kind == "assistant")
        return next((node.content for node in said if node.content.strip()), "")


async def open_agent(services: AgentServices, spec: AgentSpec) -> Agent:
    """Return an agent that is ready for its first turn. Raises `HermesError`."""
    session, place, tools = spec.session, spec.place, spec.tools
    skills = _skills(services, spec)
    if skills is not None:
        spec = replace(spec, gate=spec.gate.within(skills.in_force.limit))
    session.position = place.position
    spec.meter.add_past(node.data for node in session.path if node.kind == "assistant")

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
        )

    is_renewed = await renew_system()
    todos = LiveTodos(session.todos(), spec.emit)
    canvases = LiveCanvases(CanvasDocuments(services.home.canvas), session.id, session.canvases(), spec.emit)
    state = TaskState(session.id, spec.scratch, todos, canvases)
    state.files.restore(still_shown(session.path))
    journals = ScriptJournals(services.home.scripts / session.id)
    unasked = UnaskedChanges(place.steps, spec.emit, place.origins, place.reach.settings)
    learnings = await asyncio.to_thread(
        open_learnings,
        services.settings.learnings,
        session,
        place,
        spec.scratch,
        services.registry,
        services.options,
        services.environ.get("PATH", ""),
    )
    folders = await asyncio.to_thread(_folders, services, spec)
    helpers = TurnHelpers(spec.emit)
    spec = replace(spec, acting=(*spec.acting, helping(helpers, folders.acting)))
    calls = CallRunner(
        session,
        services.registry,
        frozenset(tool.name for tool in tools),
        _context_factory(services, spec, state, journals, skills, unasked, learnings.keeper, helpers),
        state,
        spec.emit,
        parallel=services.settings.agent.parallel_calls,
        result_limit=spec.profile.result_limit,
        secrets=place.reach.secrets,
        around=spec.around,
        steps=place.steps,
        left_by=journals.left_by,
        step_of=spec.step_of,
        unasked=unasked,
        learnings=learnings.at_calls,
        hooks=services.hooks,
        folders=folders,
        refuses=_refuses(skills),
        further=services.further,
        settled=place.reach.scripts.prepare_next,
        helpers=helpers,
    )

    async def shrink() -> Sequence[ToolSpec]:
        nonlocal profile, tools
        profile, tools = COMPACT, COMPACT.offer(tools)
        calls.offer((tool.name for tool in tools), profile.result_limit)
        await renew_system()
        return tools

    dialogue = _dialogue(services, spec, state, folders, helpers, shrink)
    turns = TurnRunner(
        session,
        dialogue,
        calls,
        spec.turn_queue,
        spec.profile,
        spec.emit,
        max_steps=spec.max_steps,
        more=spec.more,
        hooks=services.hooks,
        meant=_supplement_source(spec, skills),
        attach=spec.attach,
        beginning=_beginning(spec, skills),
        helpers=helpers,
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
    """Return the project files for places that an agent's calls reach. Searches the project root on disk."""
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
        follows_shell=not reach.terminals.elsewhere,
    )


def _skills(services: AgentServices, spec: AgentSpec) -> SessionSkills | None:
    """Return the skills of an agent; permissions from a skill apply to that agent and turn."""
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
        writing=partial(spec.place.steps.acting, session=spec.session.id),
        emit=spec.emit,
    )


def _refuses(skills: SessionSkills | None) -> Callable[[str], str]:
    return nothing_refused if skills is None else skills.in_force.refusal


def _supplement_source(spec: AgentSpec, skills: SessionSkills | None) -> Callable[[str], Awaitable[str]]:
    """Return a function that returns extra text for the model: the skill a message runs, the agents it
    names.
    """
    if skills is None:
        return spec.meant

    async def supplement(text: str) -> str:
        return "\n\n".join(filter(None, [await skills.expand_command(text), await spec.meant(text)]))

    return supplement


def _beginning(spec: AgentSpec, skills: SessionSkills | None) -> Callable[[], None]:
    def beginning() -> None:
        spec.beginning()
        if skills is not None:
            skills.in_force.leave()

    return beginning


def _context_factory(
    services: AgentServices,
    spec: AgentSpec,
    state: TaskState,
    journals: ScriptJournals,
    skills: SessionSkills | None,
    unasked: UnaskedChanges,
    learnings: LearningKeeper,
    helpers: TurnHelpers,
) -> ContextFor:
    """Return the factory of each call's view of the engine."""
    place, session = spec.place, spec.session
    reach = place.reach
    search = ToolSearch(services.recall, services.store)
    folded = FoldedMessages(session)
    scripts = Scripts(
        runner=reach.scripts,
        tools=services.registry,
        specs=spec.tools,
        session=session,
        emit=spec.emit,
        secrets=reach.secrets,
        confined=reach.confined,
        hooks=services.hooks,
        journals=journals,
        helpers=helpers,
        refuses=_refuses(skills),
        further=services.further,
    )
    jobs = services.jobs(reach.workspace)
    senses = NO_SENSES if services.senses is None else services.senses.of_agent(spec.routes, spec.turn_queue)
    # Agents may use equal call numbers.
    keeps = partial(place.steps.acting, session=session.id)
    away = () if place.origin is None else (apart(place.origin, reach.workspace),)
    acting = acting_in_turn([*away, *spec.acting, *place.before_programs, keeps])

    def context_for(call: ToolCall) -> CallContext:
        return CallContext(
            call=call.id,
            state=state,
            workspace=reach.workspace,
            asker=spec.asker,
            sessions=search,
            folded=folded,
            terminals=reach.terminals,
            browsers=reach.browsers,
            options=services.options,
            gate=spec.gate,
            emit=spec.emit,
            notice=spec.turn_queue.notify,
            inner=scripts.calls(call.id, context_for),
            scripts=reach.scripts,
            acting=acting,
            allowed=unasked.allow,
            memory=spec.memory(call.id),
            learnings=learnings,
            skills=NO_SKILLS if skills is None else skills.of_call(call.id),
            web_services=services.web,
            checkpoints=spec.checkpoints,
            delegates=spec.delegates(call.id),
            editor=spec.editor,
            servers=HelpedDiagnostics(reach.diagnostics, helpers),
            jobs=jobs,
            training=services.training,
            senses=senses,
        )

    return context_for


def _remember(spec: AgentSpec) -> Remember | None:
    """Return the function that saves facts named in a summary; None for an agent without notes."""
    if "memory" not in {tool.name for tool in spec.tools}:
        return None

    async def remember(facts: Sequence[tuple[str, str]]) -> int:
        kept = 0
        for scope, fact in facts[:MOST_REMEMBERED]:
            try:
                await spec.memory("compaction").write(scope, [MemoryChange("add", fact)])
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

    async def after_compaction() -> None:
        """Allow dropped file lines to be read again, and show the task list once more."""
        state.files.limit_lines(set(still_shown(session.path)))
        folders.renew()
        if items := state.todos.items():
            await session.add("notice", render(items), {"kind": "todos", "to_model": True})

    temperature = settings.model.temperature
    return Dialogue(
        session,
        [replace(route, tools=spec.tools) for route in spec.routes],
        profile,
        spec.meter,
        spec.emit,
        attachments=services.attachments,
        after_compaction=after_compaction,
        policy=spec.policy,
        mask_at=settings.context.mask_at,
        words_share=settings.context.words_share,
        summary_route=spec.summary_route,
        remember=_remember(spec),
        temperature=profile.temperature if temperature is None else temperature,
        max_output=settings.model.max_output or profile.max_output,
        thinking=lambda: services.effort.level if spec.effort is None else spec.effort,
        extra={"return_token_ids": True, "logprobs": True} if settings.model.token_ids else None,
        helpers=helpers,
        shrink=shrink if profile is STANDARD else None,
    )
