"""The agent of one attempt: on a branch of the session's conversation, in a copy of its workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from agent.core.store.nodes import Session
from agent.errors import HermesError
from agent.events import Event
from agent.model.catalog import UNKNOWN
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.safety.gate import Gate
from agent.session.conversation.live_session import LiveSession
from agent.session.spending.request_table import agent_name
from agent.session.subagents.subagent import Services
from agent.session.turns.tool_context import PersonApprover, PersonAsker
from agent.session.turns.turn_queue import TurnQueue
from agent.session.wiring.agent import Agent, AgentSpec, open_agent
from agent.session.wiring.agent_workspace import AgentWorkspace
from tools.results import ToolError

if TYPE_CHECKING:
    from agent.workspace.isolated_copies.workspace_copy import WorkspaceCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """What tells an attempt from the others of its session."""

    record: Session
    head: str
    """Its branch, and who it is in events."""
    copy: WorkspaceCopy
    model: str
    """Empty: the models of the session."""
    max_steps: int
    """Requests of its turn."""


async def open_attempt(
    services: Services, spec: AttemptSpec, emit: Callable[[Event], None]
) -> tuple[Agent, AgentWorkspace]:
    """The agent, and its workspace, which is to be closed after it. Raises `HermesError`."""
    place = await services.workspaces.open_in(spec.copy, spec.head)
    try:
        return await _open(services, spec, place, emit), place
    except BaseException:
        await place.close()
        raise


async def _open(
    services: Services, spec: AttemptSpec, place: AgentWorkspace, emit: Callable[[Event], None]
) -> Agent:
    path = await services.store.path(spec.record.id, spec.head)
    session = LiveSession(services.store, spec.record, path, emit, spec.head)
    await session.prepare()
    try:
        voice = await services.models.voice(spec.model)
    except ToolError as error:
        raise HermesError(str(error)) from None
    infos, registry = services.models.infos, services.registry
    without = registry.with_trait("sends_agents") | registry.with_trait("whole_session")
    metered = partial(
        services.metering.client,
        agent=agent_name(spec.head),
        reached=partial(services.ceiling_questions.ask, agent=spec.head),
    )
    return await open_agent(
        services,
        AgentSpec(
            session=session,
            place=place,
            scratch=place.reach.scratch,
            tools=voice.profile.offer([tool for tool in services.tools if tool.name not in without]),
            routes=[replace(each, client=metered(each.client, each.name)) for each in voice.routes],
            profile=voice.profile,
            meter=Meter(infos.get(voice.routes[0].name, UNKNOWN), infos),
            policy=RetryPolicy(retries=services.settings.model.retries),
            max_steps=spec.max_steps,
            gate=_gate(services, spec.head, place),
            asker=PersonAsker(services.pending_requests, spec.head),
            turn_queue=TurnQueue(emit),
            emit=emit,
        ),
    )


def _gate(services: Services, head: str, place: AgentWorkspace) -> Gate:
    """The gate of the copy, which may ask the person if there is one."""
    reach, pending_requests = place.reach, services.pending_requests
    approver = PersonApprover(pending_requests, head, reach.around) if pending_requests.attended else None
    return reach.gate.for_agent(approver, reach.audit, head)
