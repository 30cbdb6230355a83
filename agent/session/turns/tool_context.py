"""One call's view of the engine: implementations of the protocols in `tools.context`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.event_data import FormReply
from agent.events import Decision, Event, ToolProgressed
from agent.integrations.server_events import FormAsked
from agent.safety.gate import Gate, Verdict
from agent.safety.impact import ActionEnvironment, impact
from agent.session.pending_requests import PendingRequests
from agent.session.turns.task_state import LiveTodos, TaskState
from agent.session.turns.turn_helpers import cause
from agent.session.wiring.absent import NO_DIAGNOSTICS, NO_JOBS, NO_SENSES, NO_TRAINING, NO_WEB
from tools.browser.session import Browsers
from tools.code.runner import CodeRunner
from tools.context import (
    Asker,
    Assignment,
    Delegates,
    FileMemory,
    Folded,
    InnerCaller,
    MemoryKeeper,
    PersonAnswer,
)
from tools.files.editor_text import settle
from tools.found import SessionSearch
from tools.results import ToolError
from tools.senses.services import Senses
from tools.services.actions import Action, SpawnAgent, WritePath
from tools.services.canvases import CanvasBoard
from tools.services.checkpoints import Checkpoints
from tools.services.diagnostics import Diagnostics
from tools.services.editor import NO_EDITOR, EditorSide
from tools.services.job_keeper import JobKeeper
from tools.services.learning_notes import LearningKeeper
from tools.services.skill_keeper import SkillKeeper
from tools.services.training_keeper import TrainingKeeper
from tools.services.web_reader import WebReader
from tools.terminal.terminals import Terminals
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField
    from agent.integrations.web.services import WebServices

log = logging.getLogger(__name__)

Acting = Callable[[str, Action], Awaitable[None]]
"""Called with an allowed action and its call before it runs; raises `ToolError` to prevent it."""


def acting_in_turn(each: Sequence[Acting]) -> Acting:
    """Return a callback that calls several in order."""

    async def acting(call: str, action: Action) -> None:
        for hears in each:
            await hears(call, action)

    return acting


@dataclass(frozen=True, slots=True)
class PersonAsker:
    """Sends questions of one agent to the person."""

    pending_requests: PendingRequests
    agent: str

    async def ask(self, question: str, choices: Sequence[str], allow_freetext: bool) -> PersonAnswer:
        safe = [clean(choice) for choice in choices]
        return await self.pending_requests.ask(clean(question), safe, allow_freetext, agent=self.agent)

    async def fill_in(self, server: str, message: str, fields: Sequence[FormField]) -> FormReply:
        """Send a form of a tool server to the person. Declined at once in an unattended session."""
        return await self.pending_requests.ask_person(
            FormAsked, self.agent, server=clean(server), message=clean(message), fields=tuple(fields)
        )


@dataclass(frozen=True, slots=True)
class PersonApprover:
    """Sends approval requests of one agent to the person."""

    pending_requests: PendingRequests
    agent: str
    around: ActionEnvironment

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        reached = await asyncio.to_thread(impact, action, verdict, self.around)
        return await self.pending_requests.approve(action, verdict, self.agent, reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The view of a tool while one call of one agent runs."""

    call: str
    state: TaskState
    workspace: Path
    asker: Asker
    sessions: SessionSearch
    folded: Folded
    terminals: Terminals
    browsers: Browsers
    options: Mapping[str, Any]
    gate: Gate
    emit: Callable[[Event], None]
    notice: Callable[[str], None]
    inner: InnerCaller
    scripts: CodeRunner
    acting: Acting
    """Called with every allowed action, by call, before it runs."""
    allowed: Callable[[str, Sequence[Path]], None]
    """Called with guarded places a person approved, by call."""
    memory: MemoryKeeper
    learnings: LearningKeeper
    skills: SkillKeeper
    web_services: WebServices | None
    """The services that read the web; None without any."""
    checkpoints: Checkpoints
    delegates: Delegates
    editor: EditorSide = NO_EDITOR
    servers: Diagnostics = NO_DIAGNOSTICS
    """The language servers of its workspace."""
    jobs: JobKeeper = NO_JOBS
    training: TrainingKeeper = NO_TRAINING
    senses: Senses = NO_SENSES
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while the gate decides, which may take a person."""
    script_files: FileMemory | None = None
    """The file memory of the script that makes the call; None: the model makes it."""

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
    def canvases(self) -> CanvasBoard:
        return self.state.canvases

    @property
    def files(self) -> FileMemory:
        return self.script_files or self.state.files.of_call(self.call)

    @property
    def web(self) -> WebReader:
        if self.web_services is None:
            return NO_WEB
        from agent.integrations.web.call_web import CallWeb

        return CallWeb(
            services=self.web_services,
            ask=self.permit,
            agreed=partial(self._permit, self.gate.for_agreed()),
            opens=self.gate.opens,
            scratch=lambda: self.scratch,
            progress=self.progress,
        )

    @property
    def diagnostics(self) -> Diagnostics:
        """The diagnostics; none for scripts, so that a script that edits many files is not delayed."""
        return self.servers if self.script_files is None else NO_DIAGNOSTICS

    async def permit(self, action: Action) -> None:
        await self._permit(self.gate, action)

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        goals = [act] if act else [each.goal for each in assignments]
        actions = [SpawnAgent(tool=tool, goal=goal) for goal in goals]
        verdicts = await asyncio.to_thread(lambda: [self.gate.decide(action) for action in actions])
        gate = self.gate
        if all(each.kind in ("allow", "ask") for each in verdicts):
            with self.waiting():
                if await self.delegates.agree(assignments):
                    gate = gate.for_agreed()
        for action in actions:
            await self._permit(gate, action)

    async def _permit(self, gate: Gate, action: Action) -> None:
        try:
            with self.waiting():
                self.allowed(self.call, await gate.permit(action))
            if isinstance(action, WritePath):
                # Before the undo position is recorded: unsaved text is the person's own.
                await settle(self.editor, action.path)
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
