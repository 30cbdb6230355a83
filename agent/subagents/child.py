"""One agent that was sent by another: a session of its own on the services of the session it belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent.attachments import AttachmentStore
from agent.calls import CallRunner
from agent.dialogue import Dialogue
from agent.errors import HermesError
from agent.events import Decision, Event, TurnEnded
from agent.home import Home
from agent.inbox import Inbox
from agent.inner_calls import Scripts
from agent.mailbox import Mailbox
from agent.messages import ToolCall
from agent.model.catalog import UNKNOWN
from agent.model.protocol import ToolSpec
from agent.model.transport.reply import Route
from agent.model.usage import Meter
from agent.opening import apart
from agent.safety.audit_record import called
from agent.safety.gate import Verdict
from agent.script_journal import Journals
from agent.session import LiveSession
from agent.spending.metering import Metering
from agent.spending.raising import Raiser
from agent.spending.table import agent_name
from agent.store.nodes import Session
from agent.store.store import Store
from agent.subagents.budget import BudgetReachedError, Purse
from agent.subagents.definitions import Definitions
from agent.subagents.grounds import Ground, Grounds
from agent.subagents.metered import Reached, Tally
from agent.subagents.models import Models, Voice
from agent.subagents.pause import PatientPolicy, Pause
from agent.subagents.records import Task
from agent.subagents.throttle import Throttle
from agent.subagents.writers import Writer, Writers
from agent.system import ensure_system
from agent.tasks import LiveTodos, TaskState
from agent.tool_context import CallContext, PersonApprover, PersonAsker
from agent.turn import TurnRunner
from tools.actions import Action, DeletePath, RunCommand, RunScript, SendInput, WritePath
from tools.context import Answer, Delegates
from tools.registry import Registry
from tools.results import ToolError
from tools.text import clean
from tools.todo import render
from tools.toolsets import members

if TYPE_CHECKING:
    from agent.config.schema import Settings
    from agent.workspace.attention import Attention

ASKING = frozenset({"clarify"})
SENDING = frozenset({"delegate_task", "subagents", "mixture_of_agents"})
NEVER = frozenset({"checkpoint"})
"""Tools of the session as a whole: an agent must not take back what others do meanwhile."""
GONE = "It works with {model}, which is not configured any more; configure it again, then let it go on."
NOTING = frozenset({"todo_write", "todo_read"})
_CHANGES = (WritePath, DeletePath, RunCommand, RunScript, SendInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all agents of a session have in common."""

    store: Store
    home: Home
    settings: Settings
    root: str
    """The session they belong to."""
    models: Models
    metering: Metering
    definitions: Definitions
    tools: tuple[ToolSpec, ...]
    """What the session's own agent is offered."""
    registry: Registry
    emit: Callable[[Event], None]
    inbox: Inbox
    raiser: Raiser
    options: Mapping[str, Any]
    attachments: AttachmentStore
    grounds: Grounds
    """Where they work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who an agent is and what is counted for it."""

    id: str
    task: Task
    depth: int
    """1 for an agent that the session's own agent sent."""
    deepest: bool
    """Whether it may send no other agents."""
    purse: Purse
    pause: Pause
    tally: Tally
    throttle: Throttle
    writers: Writers
    counted: Callable[[], None]
    """Told after each request."""
    waiting: Callable[[bool], None]
    """Told when it begins and ends to wait for a person."""
    reached: Reached
    """Awaited at a ceiling."""
    delegates: Callable[[str], Delegates]
    """By the call: its way to agents of its own."""


def offered(services: Services, task: Task, depth: int, deepest: bool) -> tuple[ToolSpec, ...]:
    """The tools of an agent: never more than the session's own agent has.

    Raises `ToolError` for names that stand for nothing.
    """
    if task.only_answers:
        return ()
    wanted: set[str] | None = None
    if task.toolsets:
        wanted = set(NOTING)
        for name in task.toolsets:
            found = members(name, services.registry)
            if found is None:
                known = ", ".join(sorted({entry.toolset for entry in services.registry.entries()}))
                raise ToolError(f"There is no toolset or tool named {name}; known toolsets: {known}.")
            wanted.update(found)
    without = set(NEVER) | (SENDING if deepest or task.isolation == "readonly" else set())
    if depth > 1 or not services.inbox.attended:
        without |= ASKING

    def fits(name: str) -> bool:
        entry = services.registry.get(name)
        harmless = name in NOTING | ASKING or (entry is not None and entry.read_only)
        return (wanted is None or name in wanted) and (task.isolation != "readonly" or harmless)

    return tuple(tool for tool in services.tools if tool.name not in without and fits(tool.name))


@dataclass(frozen=True, slots=True)
class _Approver:
    """A person's approvals for one agent; what it waits for them is told."""

    inner: PersonApprover
    waiting: Callable[[bool], None]

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        self.waiting(True)
        try:
            return await self.inner.ask(action, verdict)
        finally:
            self.waiting(False)


@dataclass(frozen=True, slots=True)
class _Asker(PersonAsker):
    """Questions of one agent; what it waits for answers is told."""

    waiting: Callable[[bool], None]

    async def ask(self, question: str, choices: Any, allow_freetext: bool) -> Answer:
        self.waiting(True)
        try:
            return await PersonAsker.ask(self, question, choices, allow_freetext)
        finally:
            self.waiting(False)


@dataclass(slots=True)
class Child:
    """An agent that can work. `changed` are the paths it was allowed to change."""

    session: LiveSession
    mailbox: Mailbox
    turns: TurnRunner
    changed: dict[Path, None]

    async def run(self, text: str) -> TurnEnded:
        """Work on a message to its end. Never raises; a cancelled task ends as interrupted."""
        return await self.turns.run(text)

    def last_words(self) -> str:
        """What it wrote last."""
        said = (node for node in reversed(self.session.path) if node.kind == "assistant")
        return next((node.content for node in said if node.content.strip()), "")


async def open_child(
    services: Services, ground: Ground, place: Place, record: Session, emit: Callable[[Event], None]
) -> Child:
    """The agent on its session, which may have a past. `emit` takes its events. Raises `HermesError`."""
    reach = ground.reach
    path = await services.store.path(record.id)
    session = LiveSession(services.store, record, path, emit)
    session.position = ground.position
    await session.prepare()
    voice = await _voice(services, place.task, record)
    profile = voice.profile
    tools = profile.offer(offered(services, place.task, place.depth, place.deepest))
    await ensure_system(session, reach.workspace, services.home, services.settings, profile, tools)
    mailbox = Mailbox(emit)
    state = TaskState(record.id, reach.scratch / place.id, LiveTodos(session.todos(), emit))
    journals = Journals(services.home.scripts / record.id)
    scripts = replace(reach.scripts, specs=tools, session=session, emit=emit, journals=journals)
    writer = Writer(place.id, place.writers, mailbox.remember)
    changed: dict[Path, None] = {}
    calls = CallRunner(
        session,
        services.registry,
        frozenset(tool.name for tool in tools),
        _context_factory(services, ground, place, session, state, mailbox, scripts, writer, changed, emit),
        state,
        emit,
        parallel=services.settings.agent.parallel_calls,
        result_limit=profile.result_limit,
        secrets=reach.secrets,
        # Both stand around a call that may change something.
        attention=cast("Attention", writer),
        recorder=ground.steps,
        left_by=journals.left_by,
        step_of=lambda call: services.grounds.step_of(place.id, call),
    )
    dialogue = _dialogue(services, place, voice, session, state, tools, emit)
    steps_of_turn = place.purse.budget.turns or services.settings.agent.max_turns
    turns = TurnRunner(
        # One request of the budget is kept for a last summary.
        session,
        dialogue,
        calls,
        mailbox,
        profile,
        emit,
        max_steps=max(1, steps_of_turn - 1),
        more=lambda: _more_steps(place),
    )
    return Child(session, mailbox, turns, changed)


async def _more_steps(place: Place) -> int:
    """Steps that an agent which has used up its requests may go on with."""
    purse = place.purse
    while (ceiling := purse.budget.turns) is not None:
        if (left := ceiling - purse.spent.turns - 1) > 0:
            return left
        reached = BudgetReachedError(
            purse.owner,
            "turns",
            ceiling,
            purse.spent.turns,
            wanted=2,
            setting=purse.setting("turns"),
            stands=purse,
        )
        if not await place.reached(reached):
            break
    return 0


async def _voice(services: Services, task: Task, record: Session) -> Voice:
    """The models an agent asks: one that was sent to a model of its own keeps it. Raises `HermesError`."""
    if not task.model:
        return await services.models.voice("")
    try:
        voice = await services.models.voice(record.model)
    except ToolError as error:
        # It was sent by an earlier process, and its model is not configured any more.
        raise HermesError(str(error)) from None
    if voice.routes[0].name != record.model:
        raise HermesError(GONE.format(model=clean(record.model)))
    return voice


def _context_factory(
    services: Services,
    ground: Ground,
    place: Place,
    session: LiveSession,
    state: TaskState,
    mailbox: Mailbox,
    scripts: Scripts,
    writer: Writer,
    changed: dict[Path, None],
    emit: Callable[[Event], None],
) -> Callable[[ToolCall], CallContext]:
    search = services.store.for_tools()
    reach = ground.reach
    approver = PersonApprover(services.inbox, place.id, reach.around)
    attended = services.inbox.attended
    asks = _Approver(approver, place.waiting) if attended else None
    audit = replace(reach.audit, agent=place.id, name=place.task.name)
    gate = reach.gate.for_agent(asks, audit, called(place.id, place.task.name))
    acting = _acting(ground, place, session, writer, changed)

    def context_for(call: ToolCall) -> CallContext:
        return CallContext(
            call=call.id,
            state=state,
            workspace=reach.workspace,
            asker=_Asker(services.inbox, place.id, place.waiting),
            sessions=search,
            terminals=reach.terminals,
            options=services.options,
            gate=gate,
            emit=emit,
            notice=mailbox.notify,
            inner=scripts.calls(call.id, context_for),
            scripts=scripts.runner,
            acting=acting,
            delegates=place.delegates(call.id),
        )

    return context_for


def _acting(
    ground: Ground, place: Place, session: LiveSession, writer: Writer, changed: dict[Path, None]
) -> Callable[[str, Action], Awaitable[None]]:
    away = None if ground.origin is None else apart(ground.origin, ground.reach.workspace)

    async def acting(call: str, action: Action) -> None:
        if place.task.isolation == "readonly" and isinstance(action, _CHANGES):
            raise ToolError("You may only look here, not change anything; say in your report what to change.")
        if away is not None:
            await away(call, action)
        await writer.acting(call, action)
        if isinstance(action, (WritePath, DeletePath)):
            changed[action.path] = None
        if ground.steps is not None:
            await ground.steps.acting(call, action, session.id)

    return acting


def _dialogue(
    services: Services,
    place: Place,
    voice: Voice,
    session: LiveSession,
    state: TaskState,
    tools: tuple[ToolSpec, ...],
    emit: Callable[[Event], None],
) -> Dialogue:
    settings = services.settings

    async def after_compaction() -> None:
        state.files.clear()
        if items := state.todos.items():
            await session.add("notice", render(items), {"kind": "todos", "to_model": True})

    def metered(route: Route) -> Route:
        client = services.metering.client(
            route.client,
            route.name,
            agent_name(place.task.name),
            purse=place.purse,
            throttle=place.throttle,
            pause=place.pause,
            tally=place.tally,
            told=place.counted,
            reached=place.reached,
        )
        return replace(route, client=client, tools=tools)

    routes = [metered(route) for route in voice.routes]
    infos = services.models.infos
    meter = Meter(infos.get(routes[0].name, UNKNOWN), infos)
    meter.add_past(node.data for node in session.path if node.kind == "assistant")
    profile = voice.profile
    temperature = settings.model.temperature
    return Dialogue(
        session,
        routes,
        profile,
        meter,
        emit,
        attachments=services.attachments,
        after_compaction=after_compaction,
        policy=PatientPolicy(retries=settings.model.retries),
        mask_at=settings.context.mask_at,
        temperature=profile.temperature if temperature is None else temperature,
        max_output=settings.model.max_output or profile.max_output,
    )
