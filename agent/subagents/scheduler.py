"""All agents of one session: who works, who waits, and how each can be steered and stopped."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from agent.errors import HermesError
from agent.events import AgentEnded, AgentProgressed, AgentStarted, Event, TurnEnded
from agent.store.nodes import Session, title_of
from agent.subagents import ledger
from agent.subagents.budget import Budget, Purse
from agent.subagents.child import Child, Place, Services, offered, open_child
from agent.subagents.ledger import Known
from agent.subagents.pause import Pause
from agent.subagents.records import TURN_OUTCOMES, Report, Task
from agent.subagents.reporting import make_report, watched
from agent.subagents.run import MAIN_AGENT, Run
from agent.subagents.slots import Slots
from agent.subagents.throttle import Throttle
from agent.subagents.writers import Writers
from tools.context import Delegates
from tools.results import ToolError
from tools.text import clean

log = logging.getLogger(__name__)

CONTINUE = "Go on where you stopped, and end with your report as you were asked to."

LOOK = 0.25
"""Seconds between two looks at the clock of an agent that is paused or waits for a person."""

COPY_MISSING = (
    "Agents in isolated copies are not available; "
    "use isolation `shared`, or `readonly` for one that only looks."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """`each` bounds one agent, `all` all agents of the session together."""

    at_once: int = 3
    depth: int = 2
    each: Budget = Budget(turns=40)  # noqa: RUF009 - frozen
    all: Budget = Budget()  # noqa: RUF009 - frozen


class Scheduler:
    """Starts agents in the order in which they are asked for, some at once, and ends what it began.

    `delegates` makes the way of an agent to those it sends, by its id and the call.
    """

    def __init__(
        self,
        services: Services,
        limits: Limits,
        purse: Purse,
        delegates: Callable[[str, str], Delegates],
        *,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.services = services
        self.limits = limits
        self.purse = purse.child("all agents of this session", limits.all)
        self._delegates = delegates
        self._throttle = throttle or Throttle()
        self._slots = Slots(limits.at_once)
        self._writers = Writers()
        self._clock = clock
        self._runs: dict[str, Run] = {}
        self._starting = asyncio.Lock()
        self._closed = False

    # Looking

    def runs(self) -> tuple[Run, ...]:
        """All agents there ever were in this session, in the order in which they were sent."""
        return tuple(self._runs.values())

    def run(self, id: str) -> Run:
        """Raises `ToolError` for an agent nobody sent."""
        run = self._runs.get(id.strip())
        if run is None:
            known = ", ".join(self._runs) or "none yet"
            raise ToolError(f"There is no agent {clean(id)!r}. Agents of this session: {known}.")
        return run

    def below(self, id: str) -> list[Run]:
        """The agents that `id` sent, and those they sent."""
        direct = [run for run in self._runs.values() if run.parent == id]
        return [each for run in direct for each in (run, *self.below(run.id))]

    # Starting

    async def start(self, tasks: Sequence[Task], parent: str = MAIN_AGENT, call: str = "") -> list[str]:
        """Send an agent for each task; their ids. Those for whom there is no room wait in order.

        Raises `ToolError` if one of them cannot be sent: then none is.
        """
        sender = self._runs.get(parent)
        depth = 1 if sender is None else sender.depth + 1
        self._check(tasks, depth)
        async with self._starting:
            first = await self._next_number()
            made: list[Run] = []
            for number, task in enumerate(tasks, first):
                made.append(await self._enroll(f"agent-{number}", task, parent, call, depth))
            for run in made:
                self._runs[run.id] = run
                if sender is not None and sender.is_over:
                    run.stop = "killed"
                self._tell_start(run)
                self._begin(run, run.task.message())
        return [run.id for run in made]

    async def _next_number(self) -> int:
        """A number no agent of the session has, also when another process works on the session too."""
        there = len(await self.services.store.children(self.services.root))
        known = (int(id.rpartition("-")[2]) for id in self._runs)
        return max(there, max(known, default=0)) + 1

    def _check(self, tasks: Sequence[Task], depth: int) -> None:
        if self._closed:
            raise ToolError("The session is being closed; no agent is sent any more.")
        if depth > self.limits.depth:
            raise ToolError(f"Agents may be nested {self.limits.depth} deep; do this yourself.")
        for task in tasks:
            if not task.goal.strip():
                raise ToolError("An agent needs a goal; say what it is to reach.")
            if task.isolation == "copy":
                raise ToolError(COPY_MISSING)
            offered(self.services, task, depth, depth >= self.limits.depth)

    async def _enroll(self, id: str, task: Task, parent: str, call: str, depth: int) -> Run:
        services = self.services
        record = await services.store.create_session(
            workspace=str(services.workspace),
            model=services.routes[0].name,
            title=title_of(task.goal) or id,
            parent=services.root,
        )
        run = self._made(record, id, task, parent, call, depth)
        known = Known(
            record=record,
            id=id,
            task=task,
            parent=parent,
            call=call,
            depth=depth,
            tally=run.tally,
            report=None,
        )
        await ledger.begin(services.store, record, known)
        return run

    def _made(self, record: Session, id: str, task: Task, parent: str, call: str, depth: int) -> Run:
        sender = self._runs.get(parent)
        above = self.purse if sender is None else sender.purse
        purse = above.child(id, self.limits.each.within(task.budget))
        return Run(
            id=id,
            task=task,
            parent=parent,
            call=call,
            depth=depth,
            record=record,
            purse=purse,
            pause=Pause(purse.waited, self._clock),
            asked=self._clock(),
        )

    def _begin(self, run: Run, message: str) -> None:
        run.report = None
        run.state = "queued"
        run.over.clear()
        run.job = asyncio.create_task(self._work(run, message), name=run.id)

    # Working

    async def _work(self, run: Run, message: str) -> None:
        """One piece of work of an agent, from waiting for room to its report."""
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
        await self._slots.take()
        try:
            run.purse.waited(self._clock() - run.asked)
            run.state = "running"
            self.tell(run)
            child = run.child = run.child or await self._open(run)
            for text in run.take_inputs():
                child.mailbox.steer(text)
            async with self._watch(run):
                ended = await child.run(message)
                while (letter := self._unread(run, ended)) is not None:
                    ended = await child.run(letter)
                return ended
        finally:
            run.state = "reporting"
            self._slots.give_back()

    @staticmethod
    def _unread(run: Run, ended: TurnEnded) -> str | None:
        """Something it was told that came too late for the turn."""
        if run.stop or ended.outcome != "done" or run.child is None:
            return None
        letters = run.child.mailbox.take_steering()
        return "\n\n".join(letter.text for letter in letters) or None

    async def _open(self, run: Run) -> Child:
        place = Place(
            id=run.id,
            task=run.task,
            depth=run.depth,
            deepest=run.depth >= self.limits.depth,
            purse=run.purse,
            pause=run.pause,
            tally=run.tally,
            throttle=self._throttle,
            writers=self._writers,
            counted=lambda: self.tell(run),
            waiting=lambda on: self._waits(run, on),
            delegates=lambda call: self._delegates(run.id, call),
        )

        def emit(event: Event) -> None:
            self.services.emit(replace(event, agent=run.id))
            if watched(run, event):
                self.tell(run)

        return await open_child(self.services, place, run.record, emit)

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
            else:
                self._stop(run, "budget")
                return

    async def _finish(self, run: Run, ended: TurnEnded | None, error: str) -> None:
        await asyncio.gather(*(self.kill(each.id) for each in self.below(run.id) if not each.is_over))
        try:
            await self.services.terminals.end(run.record.id)
        except Exception:
            log.exception("the terminal of an agent could not be closed")
        leaves = [each.report for each in self._runs.values() if each.parent == run.id and each.report]
        report = make_report(run, ended, error, leaves, self.services.workspace)
        try:
            await ledger.end(self.services.store, report)
        except HermesError as failure:
            log.warning("the end of %s could not be stored: %s", run.id, failure)
        run.pause.end()
        run.report, run.state, run.stop, run.asked = report, "ended", "", self._clock()
        self._tell_end(run, report)
        run.over.set()

    # Steering

    async def wait(self, ids: Iterable[str], seconds: float | None = None, waiter: str = "") -> list[Report]:
        """The reports of agents that have ended, when all have or the time is over.

        `waiter` is the agent that waits: it leaves its room to others meanwhile.
        """
        runs = [self.run(id) for id in ids]
        waiting = self._runs.get(waiter)
        lends = waiting is not None and waiting.state == "running" and any(not run.is_over for run in runs)
        async with self._slots.lent() if lends else nullcontext():
            try:
                async with asyncio.timeout(seconds):
                    for run in runs:
                        await run.over.wait()
            except TimeoutError:
                pass
        return [run.report for run in runs if run.report is not None]

    async def send_input(self, id: str, text: str) -> None:
        """Tell an agent something, before its next request; one that has ended goes on with it."""
        run = self.run(id)
        if not text.strip():
            raise ToolError("There is nothing to tell the agent; give a text.")
        if run.is_over:
            await self.resume(id, text)
        elif run.child is not None and run.state == "running":
            run.child.mailbox.steer(text)
        else:
            run.inputs.append(text)

    def pause(self, id: str) -> None:
        """Hold an agent and all it sent: no request leaves from now on, and what comes in is broken off."""
        for run in (self.run(id), *self.below(id)):
            if not run.is_over:
                run.pause.begin()
                self.tell(run)

    async def resume(self, id: str, text: str = "", budget: Budget | None = None) -> None:
        """Let an agent go on that is paused, or that has ended; `text` is what it is told then."""
        run = self.run(id)
        if budget is not None:
            run.purse.budget = budget
        if not run.is_over:
            for each in (run, *self.below(id)):
                each.pause.end()
                self.tell(each)
            if text.strip():
                await self.send_input(id, text)
            return
        if self._closed:
            raise ToolError("The session is being closed; no agent is sent any more.")
        sender = self._runs.get(run.parent)
        if sender is not None and sender.is_over:
            raise ToolError(f"{run.parent}, which sent {id}, has ended; let that one go on first.")
        run.state, run.report = "queued", None
        run.over.clear()
        if run.child is None:
            await self.services.store.recover(run.record.id)
        await ledger.resumed(self.services.store, run.record.id)
        run.pause.end()
        self._tell_start(run)
        self._begin(run, text.strip() or CONTINUE)

    async def kill(self, id: str) -> Report:
        """Stop an agent and all it sent for good; its report, with what it had done. Nothing leaves after."""
        run = self.run(id)
        self._stop(run, "killed")
        await run.over.wait()
        assert run.report is not None
        return run.report

    def interrupt(self, ids: Iterable[str]) -> None:
        """Stop agents whose sender does not wait for them any more; they can be let go on later."""
        for id in ids:
            self._stop(self.run(id), "interrupted")

    def _stop(self, run: Run, why: Literal["killed", "budget", "interrupted"]) -> None:
        if run.is_over:
            return
        run.stop = run.stop or why
        for each in self.below(run.id):
            self._stop(each, "killed" if why == "killed" else "interrupted")
        self.services.inbox.cancel_all(run.id)
        if run.job is not None:
            # Not at once: a task that has not run yet would be dropped with its report.
            asyncio.get_running_loop().call_soon(run.job.cancel)

    async def aclose(self) -> None:
        """Stop every agent; each can be let go on when the session is opened again."""
        self._closed = True
        async with self._starting:
            for run in self._runs.values():
                self._stop(run, "interrupted")
        await asyncio.gather(*(run.over.wait() for run in self._runs.values() if not run.is_over))

    # Recovering

    async def recover_children(self) -> list[Report]:
        """Know the agents of an earlier process again; the reports of those that were cut off.

        Hold the lock of the session.
        """
        cut: list[Report] = []
        for record in await self.services.store.children(self.services.root):
            known = await ledger.read(self.services.store, record, self.services.infos)
            if known is None or known.id in self._runs:
                continue
            run = self._made(record, known.id, known.task, known.parent, known.call, known.depth)
            run.tally = known.tally
            for purse in run.purse.chain():
                purse.spent += ledger.spent(known.tally)
            self._runs[run.id] = run
            report = known.report
            if report is None:
                report = await ledger.cut_off(self.services.store, known)
                cut.append(report)
                self._tell_start(run)
                self._tell_end(run, report)
            run.report, run.state = report, "ended"
            run.over.set()
        return cut

    # Telling

    def _tell_start(self, run: Run) -> None:
        name = run.task.name or run.id
        started = AgentStarted(
            agent=run.id, parent=run.parent, call=run.call, name=clean(name), goal=clean(run.task.goal)
        )
        self.services.emit(started)

    def _tell_end(self, run: Run, report: Report) -> None:
        self.services.emit(
            AgentEnded(
                agent=run.id,
                outcome=TURN_OUTCOMES[report.outcome],
                summary=clean(report.summary or report.error)[:300],
                seconds=report.seconds,
                calls=run.calls,
                tokens=report.usage.tokens,
                cost=report.usage.cost,
                budget=run.purse.share(),
            )
        )

    def tell(self, run: Run) -> None:
        """Show how an agent stands."""
        if run.is_over:
            return
        state: Literal["pending", "running", "waiting"] = "running"
        if run.state == "queued":
            state = "pending"
        elif run.waiting or run.pause.on:
            state = "waiting"
        self.services.emit(
            AgentProgressed(
                agent=run.id,
                state=state,
                action="paused" if run.pause.on else clean(run.action)[:120],
                calls=run.calls,
                tokens=run.tally.tokens,
                cost=run.tally.cost,
                budget=run.purse.share(),
            )
        )

    def _waits(self, run: Run, on: bool) -> None:
        """It begins or ends to wait for a person, which does not count as its time."""
        if on:
            if not run.waiting:
                run.waits_since = self._clock()
            run.waiting += 1
        else:
            run.waiting -= 1
            if not run.waiting:
                run.purse.waited(self._clock() - run.waits_since)
        self.tell(run)
