"""The work of one agent: from waiting for room to its report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

from agent.errors import HermesError
from agent.events import Event, TurnEnded
from agent.subagents import ledger
from agent.subagents.budget import BudgetReachedError
from agent.subagents.child import Child, Place, Services, open_child
from agent.subagents.register import Register
from agent.subagents.reporting import make_report, watched
from agent.subagents.run import Run
from agent.subagents.slots import Slots
from agent.subagents.stopping import Stopper
from agent.subagents.telling import Teller
from agent.subagents.throttle import Throttle
from agent.subagents.writers import Writers
from tools.context import Delegates

log = logging.getLogger(__name__)

LOOK = 0.25
"""Seconds between two looks at the clock of an agent that is paused or waits for a person."""


@dataclass(slots=True, kw_only=True)
class Workshop:
    """Lets agents work, as many at once as there are slots. `delegates` is the way to those they send."""

    services: Services
    depth: int
    """How deep agents may send agents."""
    register: Register
    teller: Teller
    stopper: Stopper
    slots: Slots
    throttle: Throttle
    delegates: Callable[[str, str], Delegates]
    clock: Callable[[], float]
    writers: Writers = field(default_factory=Writers)

    def begin(self, run: Run, message: str) -> None:
        """Let an agent work on a message as soon as there is room."""
        run.report = None
        run.state = "queued"
        run.over.clear()
        run.job = asyncio.create_task(self._work(run, message), name=run.id)

    async def _work(self, run: Run, message: str) -> None:
        ended: TurnEnded | None = None
        error = ""
        try:
            ended = await self._in_turn(run, message)
        except asyncio.CancelledError:
            run.stop = run.stop or "interrupted"
        except HermesError as failure:
            error = str(failure)
        except Exception as failure:
            log.exception("an agent failed")
            error = f"Internal error ({type(failure).__name__}: {failure}); the log has the details."
        finishing = asyncio.ensure_future(self._finish(run, ended, error))
        while not finishing.done():
            try:
                await asyncio.shield(finishing)
            except asyncio.CancelledError:
                # It is over anyway; the rest must not be lost.
                continue

    async def _in_turn(self, run: Run, message: str) -> TurnEnded | None:
        if run.stop:
            return None
        await self.slots.take()
        try:
            run.purse.waited(self.clock() - run.asked)
            run.state = "running"
            self.teller.stands(run)
            child, news = (run.child, "") if run.child is not None else await self._open(run)
            message = "\n\n".join(filter(None, (message, news)))
            # Each is a message of its own, by which it is known to have been read.
            for text in run.take_inputs():
                if message:
                    child.mailbox.steer(text)
                else:
                    message = text
            async with self._watch(run):
                ended = await child.run(message)
                while (letter := _unread(run, ended)) is not None:
                    ended = await child.run(letter)
                return ended
        finally:
            run.state = "reporting"
            self.slots.give_back()

    async def _open(self, run: Run) -> tuple[Child, str]:
        """The agent on its ground, and what it is told of that."""
        if run.ground_of == run.id:
            run.action = "copies the project"
            self.teller.stands(run)
        ground = await self.services.grounds.enter(run)
        place = Place(
            id=run.id,
            task=run.task,
            depth=run.depth,
            deepest=run.depth >= self.depth,
            purse=run.purse,
            pause=run.pause,
            tally=run.tally,
            throttle=self.throttle,
            writers=self.writers,
            counted=lambda: self.teller.stands(run),
            waiting=lambda on: self._waits(run, on),
            reached=lambda ceiling: self._reached(run, ceiling),
            delegates=lambda call: self.delegates(run.id, call),
        )

        def emit(event: Event) -> None:
            self.services.emit(replace(event, agent=run.id))
            if watched(run, event):
                self.teller.stands(run)

        async with run.door:
            child = run.child = await open_child(self.services, ground, place, run.record, emit)
        return child, ground.news

    @asynccontextmanager
    async def _watch(self, run: Run) -> AsyncIterator[None]:
        """Stop the agent when its time is over."""
        task = asyncio.create_task(self._end_in_time(run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _end_in_time(self, run: Run) -> None:
        while (left := run.purse.time_left()) is not None:
            if run.pause.on or run.waiting:
                await asyncio.sleep(LOOK)
            elif left > 0:
                await asyncio.sleep(min(left, LOOK))
            elif (over := run.purse.time_over()) is not None and not await self._reached(run, over):
                self.stopper.stop(run, "budget")
                return

    async def _reached(self, run: Run, ceiling: BudgetReachedError) -> bool:
        """Whether a ceiling in an agent's way has been raised; the agent waits for the person meanwhile."""
        raiser = self.services.raiser
        if not raiser.asks(ceiling):
            return False
        with self.asking(run):
            return await raiser.ask(ceiling, run.id)

    @contextmanager
    def asking(self, run: Run) -> Iterator[None]:
        """While it waits for a person."""
        self._waits(run, True)
        try:
            yield
        finally:
            self._waits(run, False)

    def _waits(self, run: Run, on: bool) -> None:
        """It begins or ends to wait for a person, which does not count as its time."""
        if on:
            if not run.waiting:
                run.waits_since = self.clock()
            run.waiting += 1
        else:
            run.waiting -= 1
            if not run.waiting:
                run.purse.waited(self.clock() - run.waits_since)
        self.teller.stands(run)

    async def _finish(self, run: Run, ended: TurnEnded | None, error: str) -> None:
        async with run.door:
            await self._over(run, ended, error)

    async def _over(self, run: Run, ended: TurnEnded | None, error: str) -> None:
        open_runs = [each for each in self.register.below(run.id) if not each.is_over]
        await asyncio.gather(*map(self.stopper.kill, open_runs))
        grounds = self.services.grounds
        workspace = grounds.of(run).reach.workspace
        await grounds.leave(run)
        own = run.ground_of == run.id and grounds.copies is not None
        copied = await grounds.copies.settle(run) if own and grounds.copies else ()
        leaves = [each.report for each in self.register.sent_by(run.id) if each.report]
        report = make_report(run, ended, error, leaves, workspace, copied)
        if run.ground_of:
            # What it acted through is closed: should it go on, it is opened anew.
            run.child = None
        try:
            await ledger.end(self.services.store, report)
        except HermesError as failure:
            log.warning("the end of %s could not be stored: %s", run.id, failure)
        run.pause.end()
        run.report, run.state, run.stop, run.asked = report, "ended", "", self.clock()
        self.teller.ended(run, report)
        run.over.set()


def _unread(run: Run, ended: TurnEnded) -> str | None:
    """Something it was told that came too late for the turn."""
    if run.stop or ended.outcome != "done" or run.child is None:
        return None
    mailbox = run.child.mailbox
    letters = mailbox.take_steering()
    for later in letters[1:]:
        mailbox.steer(later.text)
    return letters[0].text if letters else None
