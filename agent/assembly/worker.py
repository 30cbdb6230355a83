"""The session's own agent: what carries out its turns and its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent.assembly.conversation import Conversation, renew_system
from agent.assembly.foundation import Foundation
from agent.assembly.reach import Reach
from agent.attachments import AttachmentStore
from agent.calls import CallRunner
from agent.checkpoint_service import CheckpointService
from agent.dialogue import Dialogue
from agent.inbox import Inbox
from agent.mailbox import Mailbox
from agent.messages import ToolCall
from agent.model.transport.retry import RetryPolicy
from agent.opening import apart
from agent.subagents.mentions import Mentions
from agent.subagents.team import Team
from agent.tasks import LiveTodos, TaskState
from agent.tool_context import CallContext, PersonAsker
from agent.turn import TurnRunner
from tools.registry import registry
from tools.todo import render

if TYPE_CHECKING:
    from agent.workspace.attention import Attention
    from agent.workspace.checkpoints.recorder import Recorder as Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Surround:
    """What works beside the agent, each None where the session has none."""

    steps: Steps | None
    checkpoints: CheckpointService | None
    attention: Attention | None
    team: Team | None


@dataclass(frozen=True, slots=True)
class Worker:
    """Carries out turns, one after the other."""

    turns: TurnRunner
    dialogue: Dialogue
    moved: Callable[[str], Awaitable[None]]
    """Told, with the reason, when the conversation has become another one."""


def open_worker(
    base: Foundation, talk: Conversation, reach: Reach, inbox: Inbox, mailbox: Mailbox, near: Surround
) -> Worker:
    """The worker of a session, ready for its first turn."""
    session, settings, profile = talk.session, base.settings, base.plan.profile
    if near.steps is not None and near.attention is not None:
        near.steps.own_work = partial(near.attention.during, "")
    todos = LiveTodos(session.todos(), base.emit)
    state = TaskState(session.id, reach.scratch, todos)
    calls = CallRunner(
        session,
        registry,
        frozenset(tool.name for tool in talk.tools),
        _context_factory(base, reach, state, inbox, mailbox, near),
        state,
        base.emit,
        parallel=settings.agent.parallel_calls,
        result_limit=profile.result_limit,
        secrets=reach.secrets,
        attention=near.attention,
        recorder=near.steps,
        left_by=reach.scripts.journals.left_by,
        step_of=_no_step if near.team is None else near.team.step_of,
    )
    dialogue = _dialogue(base, talk, state)
    most = base.options.max_steps or settings.agent.max_turns
    meant = None if near.team is None else Mentions(base.definitions, base.options.workspace)
    turns = TurnRunner(session, dialogue, calls, mailbox, profile, base.emit, max_steps=most, meant=meant)

    async def moved(reason: str) -> None:
        state.files.clear()
        todos.replace(session.todos())
        await renew_system(base, session, talk.tools)
        await dialogue.begin_again(reason)

    return Worker(turns, dialogue, moved)


def _no_step(_call: str) -> None:
    """Without other agents nothing is merged."""


def _context_factory(
    base: Foundation, reach: Reach, state: TaskState, inbox: Inbox, mailbox: Mailbox, near: Surround
) -> Callable[[ToolCall], CallContext]:
    options, scripts, team = base.tool_options(), reach.scripts, near.team
    search = base.store.for_tools()
    beside = base.options.beside
    acting = None if beside is None else apart(beside.origin, reach.workspace)
    if near.steps is not None:
        # Agents may number their calls alike.
        acting = partial(near.steps.acting, session=scripts.session.id)

    def context_for(call: ToolCall) -> CallContext:
        return CallContext(
            call=call.id,
            state=state,
            workspace=reach.workspace,
            asker=PersonAsker(inbox, base.agent),
            sessions=search,
            terminals=reach.terminals,
            options=options,
            gate=reach.gate,
            emit=base.emit,
            notice=mailbox.notify,
            inner=scripts.calls(call.id, context_for),
            scripts=scripts.runner,
            acting=acting,
            checkpoints=near.checkpoints,
            delegates=None if team is None else team.of_main(call.id),
        )

    return context_for


def _dialogue(base: Foundation, talk: Conversation, state: TaskState) -> Dialogue:
    settings, profile = base.settings, base.plan.profile

    async def after_compaction() -> None:
        """What was masked can be read again; the task list is shown once more."""
        state.files.clear()
        items = state.todos.items()
        if items:
            await talk.session.add("notice", render(items), {"kind": "todos", "to_model": True})

    temperature = settings.model.temperature
    return Dialogue(
        talk.session,
        talk.metering.routes(talk.routes),
        profile,
        base.plan.meter,
        base.emit,
        attachments=AttachmentStore(base.home.attachments),
        after_compaction=after_compaction,
        policy=RetryPolicy(retries=settings.model.retries),
        mask_at=settings.context.mask_at,
        temperature=profile.temperature if temperature is None else temperature,
        max_output=settings.model.max_output or profile.max_output,
    )
