"""The job runner: claims due runs, executes them, resumes interrupted ones, and delivers results.

Several processes may do this at once. One unique row claims each due time. A run belongs to the process that
holds its lock, which the kernel releases if the process dies. A run that is marked `running` but has a free
lock is resumed by the process that finds it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.automation.schedule import job_table as table
from agent.automation.schedule.job import Job, JobRun, RunState
from agent.automation.schedule.job_table import lease
from agent.core.store.connection import Database
from agent.core.store.locks import SessionLock
from agent.errors import HermesError

log = logging.getLogger(__name__)

TAKE_OVER = 10.0
"""Seconds after which a waiting runner checks again whether the active runner has ended."""
OTHERS_RUN = 0.5
"""Seconds between checks of a run that another process executes."""
MOST_DELIVERIES = 8
"""The maximum number of deliveries at once. Those of one job are made one after the other."""
SILENT = ("[SILENT]", "HEARTBEAT_OK")
"""Answers that are not delivered."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The result of a run."""

    state: RunState
    output: str
    error: str = ""
    receipt: Mapping[str, Any] = field(default_factory=dict)


_BEAT = ""
"""The key of the heartbeat check among the deliveries. No job has this id."""

Note = Callable[[str], Awaitable[None]]
"""Stores the session in which a run works."""
Work = Callable[[Job, JobRun, Note], Awaitable[JobOutcome]]
Deliver = Callable[[Job, JobRun], Awaitable[str]]
"""Delivers the output of a run. Returns a sentence about the problem; empty if it was delivered."""


@dataclass(kw_only=True)
class JobRunner:
    """Executes due jobs. Each object can be used only once."""

    database: Database
    folder: Path
    work: Work
    deliver: Deliver
    told: Callable[[Job, JobRun], None] = lambda _job, _run: None
    """Receives each run that has ended."""
    clock: Callable[[], float] = time.time
    tick: float = 15.0
    grace: float = 120.0
    at_once: int = 2
    beat: Callable[[], Awaitable[float | None]] | None = None
    """Checks the heartbeats. Returns when the next one is due (seconds, UTC); None if there are none."""
    _tasks: dict[int, asyncio.Task[None]] = field(init=False, default_factory=dict)
    """Active runs, by id."""
    _beside: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    """Active deliveries by job id, and the active heartbeat check. They run in the background."""
    _beats: float | None = field(init=False, default=None)
    _looked_after: float = field(init=False, default=-math.inf)
    """The time of the last check of the heartbeats, by the clock of the event loop."""
    _ended: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set when a run, a delivery or a heartbeat check ends."""
    _failure: BaseException | None = field(init=False, default=None)
    _awaited: set[int] = field(init=False, default_factory=set)
    """Runs that a caller waits for and that `told` has not received yet."""

    async def run(self, stop: asyncio.Event) -> None:
        """Execute due jobs until `stop` is set. While another runner is active, wait for it.

        At the end, active runs are interrupted so that they can be resumed later, and deliveries are
        completed.
        """
        holds = lease(self.folder)
        async with self._waiting_for_deliveries():
            try:
                while not stop.is_set():
                    if holds.acquire():
                        await self._look()
                        pause = await self._until_next()
                    else:
                        pause = min(self.tick, TAKE_OVER)
                    await self._wait(pause, stop)
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                holds.release()

    async def once(self) -> None:
        """Execute the jobs that are due now, and wait for them."""
        self._looked_after = -math.inf
        await self._finish_due()

    async def carry_through(self, id: int) -> JobRun:
        """Execute due jobs until the run `id` has ended, in this or another process, and return it.

        `told` receives the run in either case. Raises `ScheduleError` if its job is deleted in the meantime.
        """
        self._awaited.add(id)
        await self.once()
        while (run := await self.database.read(lambda c: table.run(c, id))).state in ("waiting", "running"):
            await asyncio.sleep(OTHERS_RUN)
            # The other process may have ended.
            await self._finish_due()
        if id in self._awaited:
            self.told(await self.database.read(lambda c: table.job(c, run.job)), run)
        return run

    async def _finish_due(self) -> None:
        async with self._waiting_for_deliveries():
            while True:
                await self._look()
                if not (self._tasks or self._beside or self._ended.is_set()):
                    return
                # Something else may become due meanwhile.
                await self._wait(await self._until_next())

    @asynccontextmanager
    async def _waiting_for_deliveries(self) -> AsyncIterator[None]:
        """On exit, wait for active deliveries and heartbeat checks. Cancelling the wait cancels them."""
        try:
            yield
            while self._beside:
                await asyncio.wait(self._beside.values())
        finally:
            for task in self._beside.values():
                task.cancel()
            await asyncio.gather(*self._beside.values(), return_exceptions=True)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _wait(self, seconds: float, *others: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(each.wait()) for each in (self._ended, *others)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    async def _until_next(self) -> float:
        """Return the seconds to sleep until the next due time.

        It is at most one tick, because the clock may be changed.
        """
        now = self.clock()
        # What is due and not begun waits for a place, or for another process.
        soonest = await self.database.read(lambda c: table.next_after(c, now))
        if self._beats is not None and self._beats > now:
            soonest = min(soonest or self._beats, self._beats)
        return self.tick if soonest is None else max(0.05, min(self.tick, soonest - now))

    async def _look(self) -> None:
        """Claim due runs, and start pending runs, deliveries and the heartbeat check."""
        self._raise_failure()
        self._ended.clear()
        now = self.clock()
        whole = int(now)
        self._look_after()
        exists, soonest = await self.database.read(lambda c: table.waits(c, now))
        if not exists or soonest is None or soonest > now:
            return
        await self.database.write(lambda c: table.decide_due(c, whole, self.grace))
        for run in await self.database.read(table.open_runs):
            if len(self._tasks) >= self.at_once:
                break
            if run.id not in self._tasks and run.earliest <= now:
                await self._begin(run)
        await self._hand_on()

    def _look_after(self) -> None:
        """Start a heartbeat check if one is due, or if one tick has passed since the last check."""
        at = asyncio.get_running_loop().time()
        is_due = self._beats is not None and self._beats <= self.clock()
        if self.beat is None or _BEAT in self._beside or not (is_due or at - self._looked_after >= self.tick):
            return
        self._looked_after = at
        self._start(_BEAT, self._keep_beats(self.beat))

    async def _keep_beats(self, beat: Callable[[], Awaitable[float | None]]) -> None:
        self._beats = await beat()

    def _start(
        self, key: str, work: Coroutine[Any, Any, None], release: Callable[[], None] = lambda: None
    ) -> None:
        """Start a delivery or the heartbeat check in the background. `release` is called at its end."""
        task = self._beside[key] = asyncio.get_running_loop().create_task(work)

        def over(task: asyncio.Task[None]) -> None:
            self._beside.pop(key, None)
            release()
            self._over(task)

        task.add_done_callback(over)

    async def _begin(self, run: JobRun) -> None:
        try:
            job = await self.database.read(lambda c: table.job(c, run.job))
        except HermesError:
            return
        locks = [SessionLock(self.folder, f"run-{run.id}")]
        if job.intent.overlap != "parallel":
            locks.append(SessionLock(self.folder, f"job-{job.id}"))
        if not all(lock.acquire() for lock in locks):
            _release(locks)
            return
        now = self.clock()
        begun = await self.database.write(lambda c: table.begin(c, run.id, now))
        if begun is None:
            _release(locks)
            return
        task = asyncio.get_running_loop().create_task(self._carry_out(job, begun, locks))
        self._tasks[run.id] = task
        task.add_done_callback(lambda _task: self._tasks.pop(run.id))
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        """Handle the end of a task. An unexpected error means that the database failed; it ends the runner.

        Otherwise a run whose end is not stored would be started again and again.
        """
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        self._ended.set()

    async def _carry_out(self, job: Job, run: JobRun, locks: list[SessionLock]) -> None:
        async def note(session: str) -> None:
            await self.database.write(lambda c: table.in_session(c, run.id, session))

        try:
            try:
                outcome = await self.work(job, run, note)
            except HermesError as error:
                outcome = JobOutcome("failed", "", str(error))
            except Exception as error:
                log.exception("a run failed")
                outcome = JobOutcome("failed", "", f"Internal error ({type(error).__name__}).")
            text = outcome.output or outcome.error
            silent = job.intent.deliver == "none" or outcome.output.strip() in SILENT or not text
            silent = silent or (run.is_beat and await self._said_before(run, outcome))
            ended = self.clock()
            await self.database.write(
                lambda c: table.end(
                    c,
                    run.id,
                    outcome.state,
                    ended,
                    outcome.output,
                    outcome.error,
                    outcome.receipt,
                    "" if silent else "waiting",
                )
            )
            with suppress(HermesError):
                # The job may have been removed meanwhile.
                self.told(job, await self.database.read(lambda c: table.run(c, run.id)))
                self._awaited.discard(run.id)
        finally:
            _release(locks)

    async def _said_before(self, run: JobRun, outcome: JobOutcome) -> bool:
        """Return whether the previous run of a heartbeat failed with the same message.

        The user has already received that message.
        """
        if outcome.state != "failed" or outcome.output:
            return False
        runs = await self.database.read(lambda c: table.runs_of(c, run.job, 2))
        return any(each.id != run.id and each.error == outcome.error for each in runs)

    async def _hand_on(self) -> None:
        """Start pending deliveries of stored outputs, without asking a model."""
        now = self.clock()
        for job, run in await self.database.read(lambda c: table.to_deliver(c, now, "others")):
            if len(self._beside.keys() - {_BEAT}) >= MOST_DELIVERIES:
                return
            if job.id in self._beside:
                continue
            lock = SessionLock(self.folder, f"run-{run.id}")
            if not lock.acquire():
                continue
            with ExitStack() as held:
                held.callback(lock.release)
                if await self._still_waits(run.id):
                    self._start(job.id, self._deliver(job, run), held.pop_all().close)

    async def _still_waits(self, id: int) -> bool:
        """Return whether the run still exists and its output must still be delivered."""
        try:
            return (await self.database.read(lambda c: table.run(c, id))).delivery == "waiting"
        except HermesError:
            return False

    async def _deliver(self, job: Job, run: JobRun) -> None:
        try:
            problem = await self.deliver(job, run)
        except HermesError as error:
            problem = str(error)
        except Exception as error:
            log.exception("a delivery failed")
            problem = f"Internal error ({type(error).__name__})."
        at = self.clock()
        await self.database.write(lambda c: table.note_delivery(c, run.id, at, problem))


def _release(locks: list[SessionLock]) -> None:
    for lock in locks:
        lock.release()
