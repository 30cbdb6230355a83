"""An agent started by another agent: its specification and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.core.store.nodes import Session
from agent.errors import HermesError
from agent.events import Decision, Event
from agent.model.catalog import UNKNOWN
from agent.model.protocol import ToolSpec
from agent.model.transport.reply import ModelRoute
from agent.model.transport.waits import PatientPolicy, Pause, Throttle
from agent.model.usage import Meter
from agent.safety.audit.log import agent_label
from agent.safety.gate import Gate, Verdict
from agent.session.conversation.live_session import LiveSession
from agent.session.conversation.opening import apart
from agent.session.further_tools import BOTH, ToolOffer, divide_tools, in_profile, with_names
from agent.session.pending_requests import PendingRequests
from agent.session.spending.budget import BudgetAccount, BudgetReachedError
from agent.session.spending.decisions import CeilingQuestions
from agent.session.spending.metering import Metering, Reached, RequestTally
from agent.session.spending.request_table import agent_name
from agent.session.subagents.agent_copies import AgentWorkspaces
from agent.session.subagents.agent_models import AgentModels, Voice
from agent.session.subagents.definitions import Definitions
from agent.session.subagents.foreign_agent import ForeignAgent
from agent.session.subagents.foreign_program import ForeignProgram, program_named
from agent.session.subagents.live_agent import FileTurn, FileTurns
from agent.session.subagents.records import Task
from agent.session.turns.tool_context import Acting, PersonApprover, PersonAsker, acting_in_turn
from agent.session.turns.turn_queue import TurnQueue
from agent.session.turns.turn_runner import StepLimit
from agent.session.wiring.agent import Agent, AgentServices, AgentSpec, open_agent
from agent.session.wiring.agent_workspace import AgentWorkspace
from tools.context import Delegates, PersonAnswer
from tools.results import ToolError
from tools.services.actions import Action, DeletePath, RunCommand, RunScript, SendInput, WritePath
from tools.text.safe_text import clean
from tools.toolsets import members, no_such, specific

GONE = "It works with {model}, which is not configured any more; configure it again, then let it continue."
_CHANGES = (WritePath, DeletePath, RunCommand, RunScript, SendInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(AgentServices):
    """The services shared by all agents that a session starts."""

    root: str
    """The id of the session to which they belong."""
    models: AgentModels
    metering: Metering
    definitions: Definitions
    tools: tuple[ToolSpec, ...]
    """The tools offered to the session's own agent."""
    searched: tuple[ToolSpec, ...]
    """Further tools that it can call, which only the search finds."""
    emit: Callable[[Event], None]
    pending_requests: PendingRequests
    ceiling_questions: CeilingQuestions
    workspaces: AgentWorkspaces
    """The workspaces of the agents."""
    programs: Mapping[str, ForeignProgram] = field(default_factory=dict)
    """Other programs in the settings that can work as agents, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentSpec:
    """The identity of an agent, and the objects that count and limit its usage."""

    id: str
    task: Task
    depth: int
    """The level of nesting: 1 for an agent that the session's own agent started."""
    deepest: bool
    """True if it may not start other agents."""
    account: BudgetAccount
    pause: Pause
    tally: RequestTally
    changed: dict[Path, None]
    """Receives the paths that its file tools are allowed to change."""
    throttle: Throttle
    writers: FileTurns
    counted: Callable[[], None]
    """Called after each request."""
    waiting: Callable[[bool], None]
    """Called with True when it begins to wait for the user, and with False when it stops."""
    reached: Reached
    """Awaited when a ceiling is reached."""
    delegates: Callable[[str], Delegates]
    """Returns the service with which a call, given by its id, starts agents."""


def agent_tools(services: Services, task: Task, depth: int, deepest: bool) -> ToolOffer:
    """Return the tools of an agent, a part of those that the session's own agent has.

    Its requests show the tools that the session's own requests show, and those that its task names. Raises
    `ToolError` for unknown names.
    """
    if task.only_answers:
        return ToolOffer(())
    registry = services.registry
    fits = agent_fits(services, task, depth, deepest)
    shown, named = {tool.name for tool in services.tools}, specific(task.toolsets, registry)
    every = tuple(tool for tool in (*services.tools, *services.searched) if fits(tool.name))
    brought = registry.with_trait("brought")
    offer = divide_tools(every, shown | named, brought - shown, 0)
    return with_names(offer, brought, more=bool(brought.difference(shown)) and not task.toolsets)


def agent_fits(services: Services, task: Task, depth: int, deepest: bool) -> Callable[[str], bool]:
    """Return a function that tells whether an agent may have a tool, given by its name.

    Raises `ToolError` for unknown names in the task.
    """
    registry = services.registry
    notes, asks = registry.with_trait("keeps_notes"), registry.with_trait("asks_person")
    wanted: set[str] | None = None
    if task.toolsets:
        wanted = set(notes)
        for name in task.toolsets:
            found = members(name, registry)
            if found is None:
                raise ToolError(no_such([name], registry))
            wanted.update(found)
    # An agent must not revert what others do at the same time.
    without = set(registry.with_trait("whole_session"))
    if deepest or task.isolation == "readonly":
        without |= registry.with_trait("sends_agents")
    if depth > 1 or not services.pending_requests.attended:
        without |= asks

    def fits(name: str) -> bool:
        entry = registry.get(name)
        # A call through `tool_call` is judged by the tool that it names.
        harmless = name in notes | asks | BOTH or (entry is not None and entry.read_only)
        may_act = task.isolation != "readonly" or harmless
        return name not in without and (wanted is None or name in wanted) and may_act

    return fits


@dataclass(frozen=True, slots=True)
class _Approver:
    """Asks the user for approvals for one agent, and reports that the agent waits."""

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
    """Asks the user the questions of one agent, and reports that the agent waits."""

    waiting: Callable[[bool], None]

    async def ask(self, question: str, choices: Any, allow_freetext: bool) -> PersonAnswer:
        self.waiting(True)
        try:
            return await PersonAsker.ask(self, question, choices, allow_freetext)
        finally:
            self.waiting(False)


async def open_subagent(
    services: Services,
    place: AgentWorkspace,
    spec: SubagentSpec,
    record: Session,
    emit: Callable[[Event], None],
) -> Agent | ForeignAgent:
    """Open an agent on its session, which may have a history. `emit` receives its events. Raises
    `HermesError`.
    """
    session = LiveSession(services.store, record, await services.store.path(record.id), emit)
    await session.prepare()
    if spec.task.foreign:
        return _foreign(services, place, spec, session, emit)
    voice = await _voice(services, spec.task, record)
    turn_queue = TurnQueue(emit)
    writer = FileTurn(spec.id, spec.writers, turn_queue.remember)
    name, infos = voice.routes[0].name, services.models.infos
    offer = in_profile(agent_tools(services, spec.task, spec.depth, spec.deepest), voice.profile)
    return await open_agent(
        services,
        AgentSpec(
            session=session,
            place=place,
            scratch=place.reach.scratch / spec.id,
            tools=offer.direct,
            searched=offer.searched,
            fits=agent_fits(services, spec.task, spec.depth, spec.deepest),
            routes=[_meter_route(services, spec, route) for route in voice.routes],
            profile=voice.profile,
            meter=Meter(infos.get(name, UNKNOWN), infos),
            policy=PatientPolicy(retries=services.settings.model.retries),
            # One request of the budget is kept for a last summary.
            limit=StepLimit(
                steps=max(1, (spec.account.budget.turns or services.settings.agent.max_turns) - 1),
                more=lambda: _more_steps(spec),
            ),
            gate=_gate(services, place, spec),
            asker=_Asker(services.pending_requests, spec.id, spec.waiting),
            turn_queue=turn_queue,
            emit=emit,
            acting=_acting(spec, writer),
            around=writer.during,
            step_of=lambda call: services.workspaces.step_of(spec.id, call),
            delegates=spec.delegates,
            effort=spec.task.effort,
        ),
    )


def _foreign(
    services: Services,
    place: AgentWorkspace,
    spec: SubagentSpec,
    session: LiveSession,
    emit: Callable[[Event], None],
) -> ForeignAgent:
    """Open an agent of another program. Raises `ConfigError` if it is not in the settings any more."""
    program = program_named(services.programs, spec.task.foreign)
    turn_queue = TurnQueue(emit)
    gate = _gate(services, place, spec)
    away = () if place.origin is None else (apart(place.origin, place.reach.workspace),)
    writer = FileTurn(spec.id, spec.writers, turn_queue.remember)
    hears = acting_in_turn([*away, *_acting(spec, writer), place.keep_files(session.id)])

    async def permit(call: str, action: Action) -> None:
        await gate.permit(action)
        await hears(call, action)

    return ForeignAgent(
        session=session,
        turn_queue=turn_queue,
        program=program,
        place=place,
        options=services.options,
        environ=services.environ,
        permit=permit,
        decide=gate.decide,
        tally=spec.tally,
        emit=emit,
    )


def _meter_route(services: Services, spec: SubagentSpec, route: ModelRoute) -> ModelRoute:
    client = services.metering.client(
        route.client,
        route.name,
        agent_name(spec.task.name),
        account=spec.account,
        throttle=spec.throttle,
        pause=spec.pause,
        tally=spec.tally,
        told=spec.counted,
        reached=spec.reached,
    )
    return replace(route, client=client)


def _gate(services: Services, place: AgentWorkspace, spec: SubagentSpec) -> Gate:
    """Return the workspace gate of an agent; it asks the user for approval when the session is attended."""
    reach = place.reach
    approver = PersonApprover(services.pending_requests, spec.id, reach.around)
    asks = _Approver(approver, spec.waiting) if services.pending_requests.attended else None
    audit = replace(reach.audit, agent=spec.id, name=spec.task.name)
    return reach.gate.for_agent(asks, audit, agent_label(spec.id, spec.task.name))


def _acting(spec: SubagentSpec, writer: FileTurn) -> tuple[Acting, ...]:
    async def permit_read_only(_call: str, action: Action) -> None:
        if spec.task.isolation == "readonly" and isinstance(action, _CHANGES):
            raise ToolError("You may only look here, not change anything; say in your report what to change.")

    async def notes(_call: str, action: Action) -> None:
        if isinstance(action, (WritePath, DeletePath)):
            spec.changed[action.path] = None

    return permit_read_only, writer.acting, notes


async def _more_steps(spec: SubagentSpec) -> int:
    """Return how many steps an agent that has used up its requests gets, after asking for a raise."""
    account = spec.account
    while (ceiling := account.budget.turns) is not None:
        if (left := ceiling - account.spent.turns - 1) > 0:
            return left
        reached = BudgetReachedError(
            account,
            "turns",
            ceiling,
            account.spent.turns,
            wanted=2,
            setting=account.setting("turns"),
        )
        if not await spec.reached(reached):
            break
    return 0


async def _voice(services: Services, task: Task, record: Session) -> Voice:
    """Return the routes of an agent; the model chosen at its start is kept. Raises `HermesError`."""
    if not task.model:
        return await services.models.voice("")
    try:
        voice = await services.models.voice(record.model)
    except ToolError as error:
        # It was sent by an earlier process, with other settings.
        raise HermesError(f"{GONE.format(model=clean(record.model))} {error}") from None
    if voice.routes[0].name != record.model:
        raise HermesError(GONE.format(model=clean(record.model)))
    return voice
