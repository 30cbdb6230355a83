"""One call's view of the engine: the protocols of `tools.context`, implemented."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.checkpoint_service import CheckpointService
from agent.events import Decision, Event, ToolProgressed
from agent.inbox import Inbox
from agent.safety.gate import Gate, Verdict
from agent.safety.outlook import Surroundings, outlook
from agent.store.search import StoreSearch
from agent.tasks import LiveFiles, LiveTodos, TaskState
from tools.actions import Action, SpawnAgent
from tools.code.runner import CodeRunner
from tools.context import Answer, Assignment, Delegates, InnerCaller
from tools.terminal.terminals import Terminals
from tools.text import clean


@dataclass(frozen=True, slots=True)
class PersonAsker:
    """Questions of one agent on their way to the inbox."""

    inbox: Inbox
    agent: str

    async def ask(self, question: str, choices: Sequence[str], allow_freetext: bool) -> Answer:
        safe = [clean(choice) for choice in choices]
        return await self.inbox.ask(clean(question), safe, allow_freetext, agent=self.agent)


@dataclass(frozen=True, slots=True)
class PersonApprover:
    """Approvals one agent needs, on their way to the inbox."""

    inbox: Inbox
    agent: str
    around: Surroundings

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        reached = await asyncio.to_thread(outlook, action, verdict, self.around)
        return await self.inbox.approve(action, verdict, self.agent, reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a tool sees while one call of one agent runs."""

    call: str
    state: TaskState
    workspace: Path
    asker: PersonAsker
    sessions: StoreSearch
    terminals: Terminals
    options: Mapping[str, Any]
    gate: Gate
    emit: Callable[[Event], None]
    notice: Callable[[str], None]
    inner: InnerCaller
    scripts: CodeRunner
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while the gate decides, which may take a person."""
    acting: Callable[[str, Action], Awaitable[None]] | None = None
    """Hears of every action that is allowed, by the call, before it is done."""
    checkpoints: CheckpointService | None = None
    """None where what happens to files is not kept."""
    delegates: Delegates | None = None
    """None where no other agents can be sent."""

    @property
    def task(self) -> str:
        return self.state.task

    @property
    def scratch(self) -> Path:
        return self.state.scratch

    @property
    def todos(self) -> LiveTodos:
        return self.state.todos

    @property
    def files(self) -> LiveFiles:
        return self.state.files

    async def permit(self, action: Action) -> None:
        await self._permit(self.gate, action)

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        goals = [act] if act else [each.goal for each in assignments]
        actions = [SpawnAgent(tool=tool, goal=goal) for goal in goals]
        verdicts = await asyncio.to_thread(lambda: [self.gate.decide(action) for action in actions])
        gate = self.gate
        if self.delegates is not None and all(each.kind in ("allow", "ask") for each in verdicts):
            with self.waiting():
                if await self.delegates.agree(assignments):
                    gate = gate.agreed()
        for action in actions:
            await self._permit(gate, action)

    async def _permit(self, gate: Gate, action: Action) -> None:
        with self.waiting():
            await gate.permit(action)
        if self.acting is not None:
            await self.acting(self.call, action)

    def progress(self, text: str) -> None:
        self.emit(ToolProgressed(call=self.call, text=text))

    def notify(self, text: str) -> None:
        self.notice(text)
