"""The implementation of the protocols in `tools.context` for one call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent.core.event_data import FormReply
from agent.events import Decision, Event, ToolProgressed
from agent.integrations.mcp.server_requests import FormAsker
from agent.integrations.server_events import FormAsked
from agent.safety.gate import Gate, Verdict
from agent.safety.impact import ActionEnvironment, account_of, impact
from agent.session.pending_requests import PendingRequests
from agent.session.turns.task_state import TaskState
from agent.session.turns.turn_helpers import cause
from tools.context import Assignment, Delegates, FileMemory, PersonAnswer
from tools.files.editor_text import save_unsaved
from tools.results import ToolError
from tools.services.actions import Action, SpawnAgent, WritePath
from tools.services.editor import EditorSide
from tools.services.service import S, Service, ServiceTable
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField

log = logging.getLogger(__name__)

Acting = Callable[[str, Action], Awaitable[None]]
"""A function called with a call id and an allowed action before it runs; raises `ToolError` to prevent it."""


def acting_in_turn(each: Sequence[Acting]) -> Acting:
    """Return a function that calls all of `each` in order."""

    async def acting(call: str, action: Action) -> None:
        for hears in each:
            await hears(call, action)

    return acting


@dataclass(frozen=True, slots=True)
class PersonAsker(FormAsker):
    """Sends questions of one agent to the user."""

    pending_requests: PendingRequests
    agent: str

    async def ask(self, question: str, choices: Sequence[str], allow_freetext: bool) -> PersonAnswer:
        safe = [clean(choice) for choice in choices]
        return await self.pending_requests.ask(clean(question), safe, allow_freetext, agent=self.agent)

    async def fill_in(self, server: str, message: str, fields: Sequence[FormField]) -> FormReply:
        """Return the user's reply to a form of an MCP server. If unattended, it is declined at once."""
        return await self.pending_requests.ask_person(
            FormAsked, self.agent, server=clean(server), message=clean(message), fields=tuple(fields)
        )


@dataclass(frozen=True, slots=True)
class PersonApprover:
    """Sends approval requests of one agent to the user."""

    pending_requests: PendingRequests
    agent: str
    around: ActionEnvironment

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        reached = await asyncio.to_thread(impact, action, verdict, self.around)
        said = await asyncio.to_thread(account_of, action, verdict, self.around)
        return await self.pending_requests.approve(action, verdict, self.agent, reached, said)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The interface that the engine gives a tool while one call of one agent runs."""

    call: str
    state: TaskState
    workspace: Path
    options: Mapping[str, Any]
    gate: Gate
    emit: Callable[[Event], None]
    notice: Callable[[str], None]
    services: ServiceTable[CallContext]
    acting: Acting
    """Called with the call and every allowed action before it runs."""
    allowed: Callable[[str, Sequence[Path]], None]
    """Called with the call and the guarded paths that the user approved."""
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context entered while the gate decides, since it may ask the user."""
    script_files: FileMemory | None = None
    """The file memory of the script that makes the call; None if the model makes it."""
    _used: dict[type[Service], Service] = field(default_factory=dict, init=False)

    @property
    def task(self) -> str:
        return self.state.task

    @property
    def scratch(self) -> Path:
        return self.state.scratch

    def service(self, kind: type[S]) -> S:
        if kind not in self._used:
            self._used[kind] = self.services.get(kind, self)
        return cast("S", self._used[kind])

    async def permit(self, action: Action) -> None:
        await self._permit(self.gate, action)

    async def permit_agreed(self, action: Action) -> None:
        """Ask the gate about an action that is part of an action that was already approved."""
        await self._permit(self.gate.for_agreed(), action)

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        goals = [act] if act else [each.goal for each in assignments]
        actions = [SpawnAgent(tool=tool, goal=goal) for goal in goals]
        verdicts = await asyncio.to_thread(lambda: [self.gate.decide(action) for action in actions])
        gate = self.gate
        if all(each.kind in ("allow", "ask") for each in verdicts):
            with self.waiting():
                if await self.service(Delegates).agree(assignments):
                    gate = gate.for_agreed()
        for action in actions:
            await self._permit(gate, action)

    async def _permit(self, gate: Gate, action: Action) -> None:
        try:
            with self.waiting():
                self.allowed(self.call, await gate.permit(action))
            if isinstance(action, WritePath):
                # Before what undo goes back to is taken down: unsaved text is the person's own.
                await save_unsaved(self.service(EditorSide), action.path)
            await self.acting(self.call, action)
        except ToolError:
            raise
        except Exception as error:
            log.exception("what guards an action of %s failed", action.tool)
            raise ToolError(f"Not done: what has to agree to it failed ({cause(error)}).") from error

    def progress(self, text: str) -> None:
        self.emit(ToolProgressed(call=self.call, text=text))

    def notify(self, text: str) -> None:
        self.notice(text)
