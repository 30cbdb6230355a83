"""One open session that works: what a surface talks to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.core.messages import Attachment, Mode, ModeName
from agent.core.store.nodes import Node
from agent.core.store.operations import SessionPlace
from agent.errors import HermesError
from agent.events import EffortChanged, ModeChanged, Noticed, TurnEnded
from agent.knowledge.context.context_table import ContextTable
from agent.model.effort import SessionEffort
from agent.safety.gate import Gate
from agent.safety.grants import Grants
from agent.session.pending_requests import PendingRequests
from agent.session.stream import EventStream
from agent.session.turns.turn_queue import QueuedMessage
from agent.session.wiring.absent import ProjectWatch
from agent.session.wiring.agent import Agent
from agent.session.wiring.shared_services import MAIN_AGENT
from tools.text.safe_text import printable

if TYPE_CHECKING:
    from agent.integrations.mcp.service import McpService
    from agent.integrations.plugins.session_plugins import SessionPlugins
    from agent.knowledge.recall.recall import Recall
    from agent.session.attempts.parallel_attempts import ParallelAttempts
    from agent.session.history.navigation import HistoryNavigation
    from agent.session.spending.metering import Metering
    from agent.session.subagents.scheduler import Scheduler

MARKING = "Marking the turn, so that it can be undone,"
"""How a notice names that."""


class Engine:
    """Takes messages in, emits events, can be interrupted at any time.

    A message that comes while a turn runs waits in the queue; the next turn
    begins by itself, except after an interrupt, when the queue is left alone.
    """

    def __init__(
        self,
        agent: Agent,
        stream: EventStream,
        pending_requests: PendingRequests,
        model: str,
        close: Sequence[Callable[[], Awaitable[None]]],
        gate: Gate,
        metering: Metering,
        watch: ProjectWatch,
        travel: HistoryNavigation,
        attempts: ParallelAttempts | None,
        agents: Scheduler | None,
        recall: Recall,
        plugins: SessionPlugins,
        servers: McpService,
        effort: SessionEffort,
    ) -> None:
        """`attempts` and `agents` are None where a session has none."""
        self.session = agent.session
        self.stream = stream
        self.pending_requests = pending_requests
        self.model = model
        self.metering = metering
        """What the session spends, and what happens when a ceiling is reached."""
        self.plugins = plugins
        """What plugins bring into the session."""
        self.recall = recall
        """Finds what was said and noted before."""
        self.servers = servers
        """The MCP servers of the session."""
        self.travel = travel
        """Going back, branching, undo and redo."""
        self._agent = agent
        self._turn_queue = agent.turn_queue
        self._turns = agent.turns
        self._helpers = agent.helpers
        self._close = close
        self._gate = gate
        self._watch = watch
        self._attempts = attempts
        self._agents = agents
        self._effort = effort
        travel.busy = lambda: self.busy
        self._task: asyncio.Task[Any] | None = None
        self._stopping = False
        self._holds_message = True

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def context(self) -> ContextTable:
        """What fills the window of the model now, and what the session has used. Works during a turn."""
        return await self._agent.dialogue.context()

    async def compact(self, focus: str = "") -> str:
        """Fold the conversation so far, with an eye on `focus`; a sentence about it.

        Messages that come meanwhile wait in the queue. Raises `HermesError` while a turn runs, or where
        nothing can be folded.
        """
        if self.busy:
            raise HermesError("A turn is running; the conversation is folded between turns. Stop it first.")
        self._stopping = False
        self._task = asyncio.create_task(self._agent.dialogue.compact(focus), name="compaction")
        self._task.add_done_callback(self._continue)
        task = self._task
        await asyncio.wait([task])
        if task.cancelled():
            raise HermesError("Folding the conversation was stopped; nothing was changed.")
        return task.result()

    def approve(self, mode: ModeName) -> None:
        """Choose the mode of the gate for the rest of the session."""
        self._gate.mode = mode
        self.stream.emit(ModeChanged(mode=self._gate.mode))

    @property
    def mode(self) -> Mode:
        """The mode of the gate that is in force; a broken file of permissions can hold it back."""
        return self._gate.mode

    @property
    def effort(self) -> str:
        """How much the model thinks, as `SessionOpened` tells it."""
        return self._effort.word

    async def set_effort(self, text: str) -> str:
        """Let the models of the session think so much from their next request on; the level in force.

        Kept with the session. Raises `HermesError` for what is no level.
        """
        effort = self._effort
        try:
            effort.choose(text)
        except ValueError as error:
            raise HermesError(f"There is no effort “{printable(text)[:40]}”; {error}.") from None
        await self.session.add("notice", effort.told, effort.record())
        self.stream.emit(EffortChanged(effort=effort.word))
        self.stream.emit(Noticed(kind="info", text=effort.told))
        return effort.word

    @property
    def grants(self) -> Grants:
        """What the person allowed for more than once."""
        return self._gate.grants

    async def watch(self, on: bool) -> None:
        """Notice from now on what others change in the project, or no longer; a notice says so.

        Raises `HermesError` in a session that nobody attends: there is no one to tell.
        """
        self.stream.emit(Noticed(kind="info", text=await self._watch.switch(on)))

    @property
    def watches(self) -> bool:
        """Whether it is noticed what others change in the project."""
        return self._watch.enabled

    @property
    def attempts(self) -> ParallelAttempts:
        """The same message on several branches at once. Raises `HermesError` where that cannot be done."""
        if self._attempts is None:
            raise HermesError(
                "What happens to files is not kept in this session, so it has no parallel attempts."
            )
        return self._attempts

    @property
    def agents(self) -> Scheduler:
        """The agents it sends, to steer and stop them. Raises `HermesError` where none can be sent."""
        if self._agents is None:
            raise HermesError("In this session no other agents can be sent; see subagents.depth.")
        return self._agents

    @property
    def queue(self) -> tuple[str, ...]:
        return self._turn_queue.queue

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queued messages, as edited by the person."""
        self._turn_queue.set_queue(texts)

    def send_queue(self) -> None:
        """Begin a turn with the first queued message; the others follow. Nothing while a turn runs."""
        if not self.busy and (item := self._turn_queue.next()) is not None:
            self._begin(item, "queue")

    def submit(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        """Begin a turn with a message, or queue it behind the running one.

        `received` is the row of a messenger's message, which is marked as taken by the same commit.
        """
        if self.busy:
            self._turn_queue.enqueue(text, attachments, received)
        else:
            self._begin(QueuedMessage(text, tuple(attachments), received), "prompt")

    def steer(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        """Hand a message to the running turn, to be read before its next request; begin one if none runs."""
        if self.busy:
            self._turn_queue.steer(text, attachments, received)
        else:
            self._begin(QueuedMessage(text, tuple(attachments), received), "prompt")

    def interrupt(self) -> None:
        """Stop the running turn for good. Pending questions are resolved first, as cancelled."""
        self.pending_requests.cancel_all(MAIN_AGENT)
        if self._task is not None and not self._task.done() and not self._stopping:
            # Once: a second cancellation would cut off how the turn ends, and nobody would hear of it.
            self._stopping = True
            # Not before it holds its message, which would be dropped with it.
            if self._holds_message:
                asyncio.get_running_loop().call_soon(self._task.cancel)

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Work on one message to its end (for surfaces that do nothing else meanwhile)."""
        self._begin(QueuedMessage(text, tuple(attachments)), "prompt", kept=False)
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def go_on(self) -> TurnEnded | None:
        """Carry the turn to its end that the process before was cut off in; None if there is none.

        Nothing that is in the store is asked for again: neither the model nor a call.
        """
        if self.busy or not self._turns.cut_off:
            return None
        self._stopping = False
        self._task = asyncio.create_task(self._taken_up(), name="turn")
        self._task.add_done_callback(self._continue)
        return await asyncio.shield(self._task)

    async def idle(self) -> None:
        """Wait until no turn runs and nothing is about to begin."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Stop what runs and close everything, in order; one failure does not keep the rest open."""
        self.interrupt()
        await self.idle()
        await self.travel.under_way.settled()
        errors = [error for close in self._close if (error := await _closed(close)) is not None]
        if errors:
            raise errors[0]

    def _begin(self, message: QueuedMessage, origin: str, *, kept: bool = True) -> None:
        """Begin a turn; when its message cannot be stored, it is `kept` in the queue."""
        self._stopping = self._holds_message = False
        self._task = asyncio.create_task(self._turn(message, origin, kept), name="turn")
        self._task.add_done_callback(self._continue)

    async def _turn(self, message: QueuedMessage, origin: str, kept: bool) -> TurnEnded:
        """A turn, which can be undone when it is over."""
        before = await self._helpers.ask(MARKING, self.travel.place, None)
        self._holds_message = True
        if self._stopping and (task := asyncio.current_task()) is not None:
            task.cancel()
        ended = await self._turns.run(message.text, origin, message.attachments, message.received)
        if self._turns.unsaved and kept:
            self._turn_queue.put_back([message])
        await self._over(before, message.text)
        return ended

    async def _taken_up(self) -> TurnEnded:
        """The rest of a turn; an undo takes back all of it."""
        begun = next((node for node in reversed(self.session.path) if _begins_turn(node)), None)

        async def began() -> SessionPlace:
            place = await self.travel.place()
            if begun is None:
                return place
            return replace(place, node=begun.parent, step=await self.travel.position_of(begun.id))

        before = await self._helpers.ask(MARKING, began, None)
        ended = await self._turns.go_on()
        await self._over(before, begun.content if begun is not None else "")
        return ended

    async def _over(self, before: SessionPlace | None, text: str) -> None:
        """A turn can be undone from now on; `before` is where the session stood, None where nobody knows."""
        if before is None:
            return
        over = asyncio.ensure_future(
            self._helpers.ask(MARKING, lambda: self.travel.turn_over(before, text), None, through=HermesError)
        )
        try:
            await asyncio.shield(over)
        except HermesError as error:
            self.stream.emit(Noticed(kind="warning", text=f"This turn cannot be undone: {error}"))
        except asyncio.CancelledError:
            # The turn is over; only the waiting for what follows it was interrupted.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()

    def _continue(self, done: asyncio.Task[Any]) -> None:
        self._turn_queue.queue_steering()
        if self._stopping or done.cancelled() or self.busy:
            # Busy: somebody was quicker than this callback; the end of that turn comes here again.
            return
        item = self._turn_queue.next()
        if item is not None:
            self._begin(item, "queue")


def _begins_turn(node: Node) -> bool:
    return node.kind == "user" and node.data.get("origin") in ("prompt", "queue")


async def _closed(close: Callable[[], Awaitable[None]]) -> Exception | None:
    try:
        await close()
    except Exception as error:
        return error
    return None
