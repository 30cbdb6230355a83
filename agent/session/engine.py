"""The engine of one open session: commands and queries for every surface, and properties that follow its
events.

All arguments and results are data: `agent.api.remote` encodes them as JSON, so the same interface works over
a socket. Properties are available without a request and reflect the last event. Methods with a result are
coroutines. They raise `HermesError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.messages import Attachment, Mode, ModeName, canonical
from agent.core.store.nodes import Node
from agent.core.store.operations import SessionPlace
from agent.errors import ExitCode, HermesError, StoreError
from agent.events import EffortChanged, ModeChanged, Noticed, Reply, TurnEnded
from agent.knowledge.context.context_table import ContextTable
from agent.session.conversation.stored_sessions import StoredSessions
from agent.session.pending_requests import Approvals
from agent.session.subagents.agents import Agents
from agent.session.turns.call_effects import WATCHING
from agent.session.turns.turn_queue import QueuedMessage
from agent.session.wiring.agent import Agent
from agent.session.wiring.session_plugins import PluginCommands
from agent.session.wiring.shared_services import MAIN_AGENT, SharedServices
from tools.kit.files import write_atomically
from tools.kit.threads import close_all
from tools.text.safe_text import printable

if TYPE_CHECKING:
    from agent.integrations.mcp.service import McpService
    from agent.model.catalog import ModelInfo
    from agent.session.attempts.parallel_attempts import ParallelAttempts
    from agent.session.history.branch_comparison import BranchComparison
    from agent.session.history.navigation import HistoryNavigation
    from agent.session.spending.report import SpendingOverview
    from agent.session.subagents.scheduler import Scheduler
    from agent.session.subagents.subagent import Services
    from agent.workspace.change_reporter import ChangeReporter

T = TypeVar("T")
MARKING = "Marking the turn, so that it can be undone,"
"""The name of this step in a warning about its failure."""


class Engine:
    """Accepts messages, emits events, and can be interrupted at any time.

    A message that arrives while a turn runs waits in the queue. The next turn begins automatically, except
    after an interrupt, which leaves the queue unchanged.
    """

    is_lost = False
    """True if the engine's process has ended, so that it cannot answer any more."""

    def __init__(
        self,
        base: SharedServices,
        services: Services,
        agent: Agent,
        travel: HistoryNavigation,
        watch: ChangeReporter | None,
        servers: McpService,
        attempts: ParallelAttempts | None,
        scheduler: Scheduler | None,
    ) -> None:
        """Create the engine. `attempts` and `scheduler` are None for a session without them."""
        self.session = agent.session
        self.stream = base.stream
        self.pending_requests = services.pending_requests
        self.model = services.models.own.routes[0].name
        self.metering = services.metering
        """The spending of the session, and the handling of reached ceilings."""
        self.session_plugins = base.plugins
        """The plugins of the session."""
        self.recall = base.recall
        """Search over messages and notes."""
        self.servers = servers
        """The MCP servers of the session."""
        self.history = travel
        """Going back, branching, undo and redo."""
        self._gate = services.workspaces.shared.reach.gate
        self.plugins = PluginCommands(base.plugins, base.emit)
        self.approvals = Approvals(self._gate.grants, services.pending_requests.pending)
        self.stored = StoredSessions(base.store, base.home, base.recall)
        self._home = base.home
        self._agent = agent
        self._turn_queue = agent.turn_queue
        self._turns = agent.turns
        self._helpers = agent.helpers
        self._closers = base.closers
        self._watch = watch
        self._attempts = attempts
        self._scheduler = scheduler
        self._effort = services.effort
        travel.busy = lambda: self.busy
        self._task: asyncio.Task[Any] | None = None
        self._stopping = False
        self._stops = 0
        """How often the user has stopped the session."""
        self._holds_message = True
        self._later: list[Callable[[], None]] | None = None
        """Requests that wait until an ended turn has been made undoable; None at other times."""

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def workspace(self) -> Path:
        """The folder in which the session works."""
        return Path(self.session.record.workspace)

    @property
    def branch(self) -> str:
        """The branch in use."""
        return self.session.head

    @property
    def path(self) -> Sequence[Node]:
        """All nodes from the root to the end of the branch. Old ones may be read from the store on access."""
        return self.session.path

    @property
    def keeps_files(self) -> bool:
        """True if file changes are recorded, so that they can be undone."""
        return self.history.keeps_files

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def context(self) -> ContextTable:
        """Return what fills the model's context window now, and the session's usage. Works during a turn."""
        return await self._agent.dialogue.context()

    async def compact(self, focus: str = "") -> str:
        """Compact the conversation so far with attention to `focus`; return a sentence about the result.

        Messages that arrive meanwhile wait in the queue. Raises `HermesError` while a turn runs, or if
        nothing can be folded.
        """
        if self.busy:
            raise HermesError("A turn is running; the conversation is folded between turns. Stop it first.")
        self._stopping = False
        task = self._start(partial(self._agent.dialogue.compact, focus), "compaction")
        await asyncio.wait([task])
        if task.cancelled():
            raise HermesError("Compacting the conversation was stopped; nothing was changed.")
        return task.result()

    async def set_mode(self, mode: ModeName) -> Mode:
        """Choose the permission mode for the rest of the session; return the mode now in force.

        The choice is stored with the session; when the session is reopened, it holds only if it is stricter
        than the configured mode.
        """
        self._gate.mode = mode
        self.stream.emit(ModeChanged(mode=self._gate.mode))
        try:
            await self.history.add_note("", {"kind": "mode", "to_model": False, "mode": canonical(mode)})
        except StoreError as error:
            text = f"The mode holds now, but not when the session is continued: {error}"
            self.stream.emit(Noticed(kind="warning", text=text))
        return self._gate.mode

    @property
    def mode(self) -> Mode:
        """The permission mode in force. It can be stricter than the chosen one if a permissions file is
        broken.
        """
        return self._gate.mode

    @property
    def effort(self) -> str:
        """The model's thinking effort, in the same form as in `SessionOpened`."""
        return self._effort.word

    async def set_effort(self, text: str) -> str:
        """Set the thinking effort of the session's models from their next request on; return the level in
        force.

        The level is stored with the session. Raises `HermesError` for an unknown level.
        """
        effort = self._effort
        try:
            effort.choose(text)
        except ValueError as error:
            raise HermesError(f"There is no effort “{printable(text)[:40]}”; {error}.") from None
        await self.history.add_note(effort.notice_text, effort.record())
        self.stream.emit(EffortChanged(effort=effort.word))
        self.stream.emit(Noticed(kind="info", text=effort.notice_text))
        return effort.word

    async def watch(self, on: bool) -> None:
        """Start or stop watching the project for changes by other programs; a notice confirms it.

        Raises `HermesError` in an unattended session.
        """
        if self._watch is None:
            raise HermesError("The project is watched only where a person works beside Hermes.")
        self.stream.emit(Noticed(kind="info", text=await self._watch.switch(on)))

    @property
    def watches(self) -> bool:
        """True while the project is watched for changes by other programs."""
        return self._watch is not None and self._watch.enabled

    @property
    def attempts(self) -> ParallelAttempts:
        """The parallel attempts of the session. Raises `HermesError` if they are not available."""
        if self._attempts is None:
            raise HermesError(
                "What happens to files is not kept in this session, so it has no parallel attempts."
            )
        return self._attempts

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that starts and stops the session's agents. Raises `HermesError` if it has none."""
        if self._scheduler is None:
            raise HermesError("In this session no other agents can be sent; see subagents.depth.")
        return self._scheduler

    @property
    def agents(self) -> Agents:
        """The session's agents, as commands and queries for surfaces.

        Each method raises `HermesError` if the session cannot have agents.
        """
        return Agents(lambda: self.scheduler, self.history)

    @property
    def queue(self) -> tuple[str, ...]:
        """The messages that wait for the end of the turn."""
        return self._turn_queue.queue

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queued messages with the texts that the user edited."""
        self._turn_queue.set_queue(texts)

    def send_queue(self) -> None:
        """Begin a turn with the first queued message; the others follow. Does nothing while a turn runs."""
        if self._put_off(self.send_queue):
            return
        if not self.busy and (item := self._turn_queue.next()) is not None:
            self._begin(item, "queue")

    def submit(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        """Begin a turn with a message, or queue it after the running turn.

        `received` is the database row of a message that a messenger delivered. It is marked as processed in
        the same commit.
        """
        if self._put_off(partial(self.submit, text, attachments, received)):
            return
        if self.busy:
            self._turn_queue.enqueue(text, attachments, received)
        else:
            self._begin(QueuedMessage(text, tuple(attachments), received), "prompt")

    def steer(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        """Give a message to the running turn, which reads it before its next request. Without a turn, begin
        one.
        """
        if self._put_off(partial(self.steer, text, attachments, received)):
            return
        if self.busy:
            self._turn_queue.steer(text, attachments, received)
        else:
            self._begin(QueuedMessage(text, tuple(attachments), received), "prompt")

    def _put_off(self, asked: Callable[[], None]) -> bool:
        """Return whether `asked` was postponed until the turn that is being stopped has ended.

        In the queue, its message would wait for the user, who believes that it was sent.
        """
        if not self._stopping or self._later is None:
            return False
        self._later.append(asked)
        return True

    def interrupt(self) -> None:
        """Stop the running turn, and drop messages that still wait in `run`. Pending requests are first
        resolved as cancelled.
        """
        self._stops += 1
        self.pending_requests.cancel_all(MAIN_AGENT)
        if self._task is not None and not self._task.done() and not self._stopping:
            # Once: a second cancellation would cut off the end of the turn unnoticed.
            self._stopping = True
            # Not before it holds its message, which would be dropped with it.
            if self._holds_message:
                asyncio.get_running_loop().call_soon(self._task.cancel)

    def answer(self, request: str, reply: Reply) -> None:
        """Answer a pending request by its id; does nothing if the request is already resolved."""
        for asked in self.pending_requests.pending():
            if asked.id == request and not asked.reply.done():
                future: asyncio.Future[Any] = asked.reply
                future.set_result(reply if isinstance(reply, type(asked.cancelled)) else asked.cancelled)

    async def add_note(self, text: str) -> None:
        """Add the output of a process to the conversation as a note for the model, and show it."""
        await self.history.add_note(text, {"kind": "process", "to_model": True})
        self.stream.emit(Noticed(kind="process", text=text))

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Work on one message and return the end of its turn, for surfaces that handle one message at a time.

        The turn begins when nothing else runs: messages queued or steered at the end of the last turn go
        first. A message that is interrupted or cancelled before that never begins.
        """
        stops = self._stops
        while self._task is not None and not self._task.done():
            await self._end_of(self._task)
            if self._stops != stops:
                code = int(ExitCode.INTERRUPTED)
                return TurnEnded(outcome="interrupted", text="", session=self.id, usage={}, exit_code=code)
        self._begin(QueuedMessage(text, tuple(attachments)), "prompt", kept=False)
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def go_on(self) -> TurnEnded | None:
        """Complete the turn in which the previous process was interrupted; return None if there is no such
        turn.

        Stored answers and results are reused: neither a model request nor a call is repeated.
        """
        if self.busy or not self._turns.cut_off:
            return None
        self._stopping = False
        return await asyncio.shield(self._start(self._taken_up, "turn"))

    async def idle(self) -> None:
        """Wait until no turn runs and nothing is about to begin."""
        while self._task is not None and not self._task.done():
            await self._end_of(self._task)

    async def _end_of(self, task: asyncio.Task[Any]) -> None:
        """Wait for the end of a turn, and for the beginning of the next if one is queued."""
        await asyncio.wait([task])
        await asyncio.sleep(0)

    async def usage(self) -> SpendingOverview:
        """Return the spending of this session and this day, by agent, with the ceilings."""
        from agent.session.spending.report import overview

        return await overview(self.metering)

    async def whole_path(self) -> Sequence[Node]:
        """Return all nodes from the root to the end of the branch in use, with their full text."""
        return await self.session.whole_path()

    async def compare(self, left: str, right: str) -> BranchComparison:
        """Return a comparison of two branches, given by their names. Raises `HermesError`."""
        from agent.session.history.branch_comparison import compare

        one = (left, await self.session.store.path(self.id, left))
        other = (right, await self.session.store.path(self.id, right))
        steps = await self.history.steps()
        found = await asyncio.to_thread(compare, one, other, steps, _model_price)
        files = await self.history.changes(found.left.position, found.right.position)
        return replace(found, files=files)

    async def export(self, node: int) -> Path:
        """Write the conversation up to a node as an HTML page; return its path. Raises `StoreError`."""
        from agent.session.export.html_page import page_of
        from tools.registry import registry

        session, store = self.session.record, self.session.store
        nodes = [*await store.before(session.id, node, 1 << 30), await self.history.node(node)]
        file = self._home.root / "exports" / f"{session.id}-{node}.html"

        def write() -> None:
            page = page_of(session, nodes, registry, secrets=store.secrets, branch=self.branch)
            private_folder(file.parent)
            write_atomically(file, page.encode(), PRIVATE_FILE)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
        return file

    async def aclose(self) -> None:
        """Stop all work and close everything in order, even if this call is cancelled or a part fails."""
        self.interrupt()
        try:
            await self.idle()
            await self.history.under_way.wait()
        finally:
            await close_all(reversed(self._closers))

    def _begin(self, message: QueuedMessage, origin: str, *, kept: bool = True) -> None:
        """Begin a turn. With `kept`, a message that cannot be stored returns to the queue."""
        self._stopping = self._holds_message = False
        self._start(partial(self._turn, message, origin, kept), "turn")

    def _start(self, work: Callable[[], Coroutine[Any, Any, T]], name: str) -> asyncio.Task[T]:
        """Return a task for a turn or a compaction, which begins after any move through the history."""

        async def after_move() -> T:
            await self.history.wait_for_move()
            return await work()

        self._task = task = asyncio.create_task(after_move(), name=name)
        task.add_done_callback(self._continue)
        return task

    async def _turn(self, message: QueuedMessage, origin: str, kept: bool) -> TurnEnded:
        """Report changes by other programs, run a turn, and make it undoable; return its end."""
        if self._watch is not None:
            await self._helpers.ask(WATCHING, self._watch.catch_up, None)
        before = await self._helpers.ask(MARKING, self.history.place, None)
        self._holds_message = True
        if self._stopping and (task := asyncio.current_task()) is not None:
            task.cancel()
        ended = await self._turns.run(message.text, origin, message.attachments, message.received)
        if self._turns.unsaved and kept:
            self._turn_queue.put_back([message])
        await self._over(before, message.text)
        return ended

    async def _taken_up(self) -> TurnEnded:
        """Run the rest of an interrupted turn, and return its end. An undo reverts the whole turn."""
        begun = next((node for node in reversed(self.session.path) if _begins_turn(node)), None)

        async def began() -> SessionPlace:
            place = await self.history.place()
            if begun is None:
                return place
            return replace(place, node=begun.parent, step=await self.history.position_of(begun.id))

        before = await self._helpers.ask(MARKING, began, None)
        ended = await self._turns.go_on()
        await self._over(before, begun.content if begun is not None else "")
        return ended

    async def _over(self, before: SessionPlace | None, text: str) -> None:
        """Make an ended turn undoable. `before` is the position in the session before the turn; None if
        unknown.
        """
        self._later = []
        if before is None:
            return
        over = asyncio.ensure_future(
            self._helpers.ask(
                MARKING, lambda: self.history.turn_over(before, text), None, through=HermesError
            )
        )
        try:
            await asyncio.shield(over)
        except HermesError as error:
            self.stream.emit(Noticed(kind="warning", text=f"This turn cannot be undone: {error}"))
        except asyncio.CancelledError:
            # The turn is over; only the wait for its consequences was interrupted.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()

    def _continue(self, done: asyncio.Task[Any]) -> None:
        self._turn_queue.queue_steering()
        later, self._later = self._later, None
        for asked in later or ():
            asked()
        if self._stopping or done.cancelled() or self.busy:
            # Busy: another turn started before this callback; its end calls this again.
            return
        item = self._turn_queue.next()
        if item is not None:
            self._begin(item, "queue")


def _begins_turn(node: Node) -> bool:
    return node.kind == "user" and node.data.get("origin") in ("prompt", "queue")


def _model_price(model: str) -> ModelInfo | None:
    from agent.model.catalog import lookup

    provider, _, name = model.partition("/")
    return lookup(name, provider)
