"""One open session that works: what a surface talks to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from agent.context.table import ContextTable
from agent.errors import HermesError
from agent.events import ModeChanged, Noticed, TurnEnded
from agent.inbox import Inbox
from agent.mailbox import Letter, Mailbox
from agent.messages import Attachment
from agent.safety.gate import Gate
from agent.safety.grants import Grants
from agent.safety.permissions.modes import Mode, ModeName
from agent.session import LiveSession
from agent.stream import EventStream
from agent.turn import TurnRunner

if TYPE_CHECKING:
    from agent.futures import Futures
    from agent.spending.metering import Metering
    from agent.subagents.scheduler import Scheduler
    from agent.travel import Travel
    from agent.workspace.attention import Attention


class Engine:
    """Takes messages in, emits events, can be interrupted at any time.

    A message that comes while a turn runs waits in the queue; the next turn
    begins by itself, except after an interrupt, when the queue is left alone.
    """

    def __init__(
        self,
        session: LiveSession,
        stream: EventStream,
        inbox: Inbox,
        mailbox: Mailbox,
        turns: TurnRunner,
        model: str,
        close: Sequence[Callable[[], Awaitable[None]]],
        context: Callable[[], Awaitable[ContextTable]],
        gate: Gate,
        attention: Attention | None = None,
        travel: Travel | None = None,
        futures: Futures | None = None,
        agent: str = "main",
        agents: Scheduler | None = None,
        metering: Metering | None = None,
    ) -> None:
        self.session = session
        self.stream = stream
        self.inbox = inbox
        self.model = model
        self._mailbox = mailbox
        self._turns = turns
        self._close = close
        self._context = context
        self._gate = gate
        self._attention = attention
        self._travel = travel
        self._futures = futures
        self._agent = agent
        self._agents = agents
        self._metering = metering
        if travel is not None:
            travel.busy = lambda: self.busy
        self._task: asyncio.Task[TurnEnded] | None = None
        self._stopping = False

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def context(self) -> ContextTable:
        """What fills the window of the model now, and what the session has used. Works during a turn."""
        return await self._context()

    def approve(self, mode: ModeName) -> None:
        """Choose the mode of the gate for the rest of the session."""
        self._gate.mode = mode
        self.stream.emit(ModeChanged(mode=self._gate.mode))

    @property
    def mode(self) -> Mode:
        """The mode of the gate that is in force; a broken file of permissions can hold it back."""
        return self._gate.mode

    @property
    def grants(self) -> Grants:
        """What the person allowed for more than once."""
        return self._gate.grants

    async def watch(self, on: bool) -> None:
        """Notice from now on what others change in the project, or no longer; a notice says so.

        Raises `HermesError` in a session that nobody attends: there is no one to tell.
        """
        if self._attention is None:
            raise HermesError("The project is watched only where a person works beside Hermes.")
        self.stream.emit(Noticed(kind="info", text=await self._attention.switch(on)))

    @property
    def watches(self) -> bool:
        """Whether it is noticed what others change in the project."""
        return self._attention is not None and self._attention.enabled

    @property
    def metering(self) -> Metering:
        """What the session spends, and what happens when a ceiling is reached. Raises `HermesError`."""
        if self._metering is None:
            raise HermesError("What this session spends is not counted.")
        return self._metering

    @property
    def travel(self) -> Travel:
        """Going back, branching, undo and redo. Raises `HermesError` where a session has none."""
        if self._travel is None:
            raise HermesError("This session cannot be branched or taken back.")
        return self._travel

    @property
    def futures(self) -> Futures:
        """The same message on several branches at once. Raises `HermesError` where that cannot be done."""
        if self._futures is None:
            raise HermesError("What happens to files is not kept in this session, so it has no futures.")
        return self._futures

    @property
    def agents(self) -> Scheduler:
        """The agents it sends, to steer and stop them. Raises `HermesError` where none can be sent."""
        if self._agents is None:
            raise HermesError("In this session no other agents can be sent; see subagents.depth.")
        return self._agents

    @property
    def queue(self) -> tuple[str, ...]:
        return self._mailbox.queue

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queued messages, as edited by the person."""
        self._mailbox.set_queue(texts)

    def submit(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Begin a turn with a message, or queue it behind the running one."""
        if self.busy:
            self._mailbox.enqueue(text, attachments)
        else:
            self._begin(text, "prompt", attachments)

    def steer(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Hand a message to the running turn, to be read before its next request; begin one if none runs."""
        if self.busy:
            self._mailbox.steer(text, attachments)
        else:
            self._begin(text, "prompt", attachments)

    def interrupt(self) -> None:
        """Stop the running turn for good. Pending questions are resolved first, as cancelled."""
        self.inbox.cancel_all(self._agent)
        if self._task is not None and not self._task.done():
            self._stopping = True
            # Not at once: a task that has not run yet would be dropped with its message.
            asyncio.get_running_loop().call_soon(self._task.cancel)

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Work on one message to its end (for surfaces that do nothing else meanwhile)."""
        self._begin(text, "prompt", attachments, kept=False)
        assert self._task is not None
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
        if self._travel is not None:
            await self._travel.under_way.settled()
        errors = [error for close in self._close if (error := await _closed(close)) is not None]
        if errors:
            raise errors[0]

    def _begin(
        self, text: str, origin: str, attachments: Sequence[Attachment] = (), *, kept: bool = True
    ) -> None:
        """Begin a turn; when its message cannot be stored, it is `kept` in the queue."""
        self._stopping = False
        self._task = asyncio.create_task(self._turn(text, origin, attachments, kept), name="turn")
        self._task.add_done_callback(self._continue)

    async def _turn(self, text: str, origin: str, attachments: Sequence[Attachment], kept: bool) -> TurnEnded:
        """A turn, which can be undone when it is over."""
        before = None if self._travel is None else await self._travel.place()
        ended = await self._turns.run(text, origin, attachments)
        if self._turns.unsaved and kept:
            self._mailbox.put_back([Letter(text, tuple(attachments))])
        if self._travel is None or before is None:
            return ended
        try:
            await asyncio.shield(asyncio.ensure_future(self._travel.turn_over(before, text)))
        except HermesError as error:
            self.stream.emit(Noticed(kind="warning", text=f"This turn cannot be undone: {error}"))
        except asyncio.CancelledError:
            # The turn is over; only the waiting for what follows it was interrupted.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        return ended

    def _continue(self, done: asyncio.Task[TurnEnded]) -> None:
        self._mailbox.queue_steering()
        if self._stopping or done.cancelled():
            return
        letter = self._mailbox.next()
        if letter is not None:
            self._begin(letter.text, "queue", letter.attachments)


async def _closed(close: Callable[[], Awaitable[None]]) -> Exception | None:
    try:
        await close()
    except Exception as error:
        return error
    return None
