"""One open session that works: what a surface talks to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent.context.table import ContextTable
from agent.events import TurnEnded
from agent.inbox import Inbox
from agent.mailbox import Mailbox
from agent.session import LiveSession
from agent.stream import EventStream
from agent.turn import TurnRunner


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
    ) -> None:
        self.session = session
        self.stream = stream
        self.inbox = inbox
        self.model = model
        self._mailbox = mailbox
        self._turns = turns
        self._close = close
        self._context = context
        self._task: asyncio.Task[TurnEnded] | None = None
        self._stopping = False

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def context(self) -> ContextTable:
        """What fills the window of the model now, and what the session has used. Works during a turn."""
        return await self._context()

    @property
    def queue(self) -> tuple[str, ...]:
        return self._mailbox.queue

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queued messages, as edited by the person."""
        self._mailbox.set_queue(texts)

    def submit(self, text: str) -> None:
        """Begin a turn with a message, or queue it behind the running one."""
        if self.busy:
            self._mailbox.enqueue(text)
        else:
            self._begin(text, "prompt")

    def steer(self, text: str) -> None:
        """Hand a message to the running turn, to be read before its next request; begin one if none runs."""
        if self.busy:
            self._mailbox.steer(text)
        else:
            self._begin(text, "prompt")

    def interrupt(self) -> None:
        """Stop the running turn for good. Pending questions are resolved first, as cancelled."""
        self.inbox.cancel_all()
        if self._task is not None and not self._task.done():
            self._stopping = True
            # Not at once: a task that has not run yet would be dropped with its message.
            asyncio.get_running_loop().call_soon(self._task.cancel)

    async def run(self, text: str) -> TurnEnded:
        """Work on one message to its end (for surfaces that do nothing else meanwhile)."""
        self._begin(text, "prompt")
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
        errors = [error for close in self._close if (error := await _closed(close)) is not None]
        if errors:
            raise errors[0]

    def _begin(self, text: str, origin: str) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._turns.run(text, origin), name="turn")
        self._task.add_done_callback(self._continue)

    def _continue(self, done: asyncio.Task[TurnEnded]) -> None:
        if self._stopping or done.cancelled():
            return
        text = self._mailbox.next()
        if text is not None:
            self._begin(text, "queue")


async def _closed(close: Callable[[], Awaitable[None]]) -> Exception | None:
    try:
        await close()
    except Exception as error:
        return error
    return None
