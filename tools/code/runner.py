"""Running scripts: from call to outcome, in a fresh interpreter or a persistent kernel."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tools.code.data import Clock, CodeJob, CodeLimits, CodeOutcome, CodeProgress, RpcRequest, Serve, Status
from tools.code.process import Capture, ChildHome, Recipe, ScriptChild, choose, threads_of_system
from tools.code.server import CallDispatcher
from tools.code.stubs import Offer, generate
from tools.kit.threads import on_thread, to_the_end
from tools.results import ToolError
from tools.services.sandbox import Boundary, PermitHost
from tools.services.service import Service
from tools.terminal.environment import child_environment
from tools.terminal.process_tree import GRACE, KillGuard

LIMIT = 4
"""The maximum number of simultaneous kernels; the longest idle one ends first."""

IDLE = 1_800.0
"""Seconds after which an unused kernel is ended."""


@dataclass(eq=False)
class _Kernel:
    child: ScriptChild
    used: float
    is_busy: bool = False
    cells: int = 0
    timer: asyncio.TimerHandle | None = None


class Kernels:
    """The kernels of one session, by task and name."""

    def __init__(self, home: ChildHome, limit: int = LIMIT, idle: float = IDLE) -> None:
        self._home = home
        self._limit = limit
        self._idle = idle
        self._kernels: dict[tuple[str, str], _Kernel] = {}
        self._opening: set[tuple[str, str]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def names(self, task: str) -> list[str]:
        """Return the names of a task's living kernels."""
        return [name for owner, name in self._kernels if owner == task]

    async def open(self, job: CodeJob, recipe: Recipe) -> tuple[ScriptChild, bool]:
        """Return the kernel of `job`, started if necessary, and whether it existed. Raises `ToolError`."""
        key = _key(job)
        kernel = self._kernels.get(key)
        if key in self._opening or (kernel is not None and kernel.is_busy):
            raise ToolError(
                f"The session {job.session!r} is still running a script. "
                "Wait for it, or use another session name."
            )
        if kernel is not None and (job.reset or not _serves(kernel.child, recipe)):
            await self._drop(key)
            kernel = None
        is_known = kernel is not None
        if kernel is None:
            kernel = await self._start(key, recipe)
        kernel.is_busy = True
        if kernel.timer is not None:
            kernel.timer.cancel()
        return kernel.child, is_known

    def cell(self, job: CodeJob) -> str:
        """Return a name for the next script of the kernel, for its tracebacks."""
        kernel = self._kernels[_key(job)]
        kernel.cells += 1
        return f"script-{kernel.cells}.py"

    def keeps(self, job: CodeJob, child: ScriptChild, *, returned: bool) -> bool:
        """Record the end of a run; return whether its kernel is kept.

        It is kept if the script `returned`, that is, ended by itself.
        """
        kernel = self._kernels.get(_key(job))
        if kernel is None or kernel.child is not child or not returned or not child.is_alive:
            return False
        kernel.is_busy = False
        kernel.used = time.monotonic()
        key = _key(job)
        kernel.timer = asyncio.get_running_loop().call_later(self._idle, self._expire, key, kernel)
        return True

    def forget(self, child: ScriptChild) -> None:
        """Remove the kernel of an ended child, if it has one."""
        for key, kernel in list(self._kernels.items()):
            if kernel.child is child:
                del self._kernels[key]

    async def aclose(self) -> None:
        await asyncio.gather(*(self._drop(key) for key in list(self._kernels)))
        if self._ending:
            await asyncio.wait(set(self._ending))

    async def _start(self, key: tuple[str, str], recipe: Recipe) -> _Kernel:
        self._opening.add(key)
        try:
            await self._make_room()
            child = await ScriptChild.start(recipe, self._home, kernel=True, warm=True)
        finally:
            self._opening.discard(key)
        kernel = self._kernels[key] = _Kernel(child, time.monotonic())
        return kernel

    async def _make_room(self) -> None:
        while len(self._kernels) + len(self._opening) > self._limit:
            idle = [key for key, kernel in self._kernels.items() if not kernel.is_busy]
            if not idle:
                raise ToolError(
                    f"All {self._limit} sessions of execute_code are running a script. "
                    "Wait for one, or leave out the session."
                )
            await self._drop(min(idle, key=lambda key: self._kernels[key].used))

    async def _drop(self, key: tuple[str, str]) -> None:
        kernel = self._kernels.pop(key, None)
        if kernel is not None:
            if kernel.timer is not None:
                kernel.timer.cancel()
            await kernel.child.end()

    def _expire(self, key: tuple[str, str], kernel: _Kernel) -> None:
        if self._kernels.get(key) is kernel and not kernel.is_busy:
            task = asyncio.get_running_loop().create_task(self._drop(key))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _serves(child: ScriptChild, recipe: Recipe) -> bool:
    """Return whether a kernel is alive and has the recipe's interpreter and folder; its tools may differ."""
    same = child.recipe.interpreter == recipe.interpreter and child.recipe.folder == recipe.folder
    return same and child.is_alive


def _key(job: CodeJob) -> tuple[str, str]:
    return job.task, job.session or ""


SCARCE = 500_000_000
"""Bytes of available memory below which no child is kept waiting."""

log = logging.getLogger(__name__)

STALE = 600.0
"""Seconds after which an unused spare is ended."""


class SpareChild:
    """A holder of at most one child that waits for a script. The next one is started in the background."""

    def __init__(self, home: ChildHome, stale: float = STALE) -> None:
        self._home = home
        self._stale = stale
        self._child: ScriptChild | None = None
        self._born = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._delay: asyncio.TimerHandle | None = None
        self._is_closed = False

    def prepare(self, recipe: Callable[[], Awaitable[Recipe]], *, after: float = 0.0) -> None:
        """Start a waiting child of the given recipe in the background, unless one waits already.

        The start is delayed by `after` seconds, and skipped if a child was requested by then.
        """
        self._stop_delay()
        if after > 0:
            self._delay = asyncio.get_running_loop().call_later(after, self.prepare, recipe)
            return
        if self._is_closed or (self._starting is not None and not self._starting.done()):
            return
        self._starting = asyncio.get_running_loop().create_task(self._replace(recipe))

    async def take(self, recipe: Recipe) -> ScriptChild | None:
        """Return the waiting child, which the caller owns from then on.

        Returns None if there is none, or if it is dead, of another recipe, or less confined than before.
        """
        if self._child is None:
            return None
        if not self._fits(recipe) or not self._child.restore():
            self.drop()
            return None
        child, self._child = self._child, None
        self._stop_timer()
        return child

    async def ready(self) -> None:
        """Wait until the child that is starting, if any, is ready for its script."""
        if self._starting is not None:
            await asyncio.wait({self._starting})

    def drop(self) -> None:
        """End the waiting child, if any, in the background."""
        self._stop_timer()
        child, self._child = self._child, None
        if child is not None:
            task = asyncio.get_running_loop().create_task(child.end(grace=0.0))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        self._is_closed = True
        self._stop_delay()
        await self.ready()
        self.drop()
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _fits(self, recipe: Recipe) -> bool:
        child = self._child
        fresh = time.monotonic() - self._born < self._stale
        return child is not None and child.is_alive and fresh and child.recipe == recipe

    def _stop_delay(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _replace(self, make: Callable[[], Awaitable[Recipe]]) -> None:
        try:
            recipe = await make()
            if self._is_closed or (self._child is not None and self._fits(recipe)):
                return
            self.drop()
            if available_memory() < SCARCE:
                return
            child = await ScriptChild.start(recipe, self._home, warm=True)
        except Exception:
            # The next script starts a child of its own and reports what is wrong.
            log.debug("no spare interpreter", exc_info=True)
            return
        child.server.on_event = partial(self._on_ready, child)
        self._child, self._born = child, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self._stale, self.drop)

    def _on_ready(self, child: ScriptChild, event: RpcRequest) -> None:
        try:
            if child is self._child and event.event == "ready":
                child.withdraw()
        except OSError:
            self.drop()


def available_memory() -> float:
    """Return the bytes of memory that can be used without swapping; infinite if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return math.inf
    return int(kilobytes) * 1024


_TICK = 0.1
"""Seconds between checks of the clock, the output and the number of processes."""
_COUNTED_EVERY = 2.0
"""Seconds after which the processes of a script are counted in any case."""
_LAST_WORD = 3.0
"""Seconds a kernel gets to return from an interruption with its state."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended. `code` is the exit code that the script reported; None if its process ended before."""

    status: Status | None
    """The status; None: it ended normally."""
    code: int | None = None
    message: str = ""


class RunWatch:
    """A watcher that waits for the end of one run. It stops the script's calls, not its process."""

    def __init__(
        self,
        child: ScriptChild,
        limits: CodeLimits,
        clock: Clock,
        dispatcher: CallDispatcher,
        stop: asyncio.Event,
    ) -> None:
        self._child = child
        self._limits = limits
        self._clock = clock
        self._dispatcher = dispatcher
        self._stop = stop
        self._done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._threads = threads_of_system()
        self._counted = time.monotonic()
        self._shown = 0
        child.server.on_event = self._note

    async def wait(self) -> RunEnd:
        """Wait until the run ends or must be stopped; return how.

        If the script must be stopped, its calls are stopped before this returns.
        """
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while True:
                await asyncio.wait(
                    {self._child.exited, self._done, stopped},
                    timeout=self._patience(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                end = self._natural_end() or await self._forced_end()
                if end is not None:
                    return end
                self._show_output()
        finally:
            stopped.cancel()

    def _patience(self) -> float:
        return max(min(_TICK, self._limits.seconds - self._clock.elapsed), 0.001)

    def _natural_end(self) -> RunEnd | None:
        if self._child.exited.done():
            return RunEnd(None)
        return RunEnd(None, self._done.result()) if self._done.done() else None

    async def _forced_end(self) -> RunEnd | None:
        if self._stop.is_set():
            return await self._stop_result("interrupted", "The script was interrupted.")
        if not self._clock.is_paused and self._clock.elapsed >= self._limits.seconds:
            return await self._stop_result(
                "timeout", f"The script was stopped after {self._limits.seconds:g} s."
            )
        if await self._is_swarm():
            many = f"The script was killed: it had started more than {self._limits.processes} processes."
            await self._dispatcher.close()
            return RunEnd("crashed", None, many)
        return None

    async def _stop_result(self, status: Status, message: str) -> RunEnd:
        await self._dispatcher.close()
        if not self._child.is_kernel:
            return RunEnd(status, None, message)
        self._child.interrupt()
        await asyncio.wait(
            {self._child.exited, self._done}, timeout=_LAST_WORD, return_when=asyncio.FIRST_COMPLETED
        )
        if self._done.done():
            return RunEnd(status, self._done.result(), message + " What the session holds is kept.")
        return RunEnd(status, None, message + " What the session held is lost.")

    async def _is_swarm(self) -> bool:
        """Return whether the script has too many processes.

        They are counted if the whole system has gained that many, and every `_COUNTED_EVERY` seconds.
        """
        limit, now = self._limits.processes, time.monotonic()
        if not limit or (
            threads_of_system() - self._threads <= limit and now < self._counted + _COUNTED_EVERY
        ):
            return False
        self._counted = now
        return len(await on_thread(self._child.relatives)) > limit

    def _show_output(self) -> None:
        total = self._child.captures[0].total
        if total != self._shown:
            self._shown = total
            self._dispatcher.report()

    def _note(self, request: RpcRequest) -> None:
        if request.event == "done" and not self._child.is_kernel:
            self._child.reported = request.code
        elif request.event == "done" and not self._done.done():
            self._done.set_result(request.code)


_DEADLY = frozenset(
    {
        signal.SIGABRT,
        signal.SIGALRM,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGHUP,
        signal.SIGILL,
        signal.SIGKILL,
        signal.SIGPIPE,
        signal.SIGSEGV,
        signal.SIGTERM,
    }
)
"""Signals that may have ended a program inside a boundary that exits with 128 + n."""


def outcome(
    job: CodeJob,
    end: RunEnd,
    child: ScriptChild,
    dispatcher: CallDispatcher,
    captures: tuple[Capture, Capture],
    seconds: float,
) -> CodeOutcome:
    """Return the outcome of an ended run; `seconds` is its duration."""
    code = end.code if end.code is not None else exit_code(child)
    status, message = _judge(end, child, code)
    out, errors = captures
    return CodeOutcome(
        status=status,
        stdout=out.text(),
        stderr=errors.text(),
        exit_code=code,
        duration=seconds,
        calls=tuple(sorted(dispatcher.records, key=lambda record: record.number)),
        calls_made=dispatcher.made,
        message=message,
        metadata=metadata(job, interpreter=child.recipe.interpreter.path)
        | {"stdout_bytes": out.total, "stderr_bytes": errors.total},
    )


def metadata(job: CodeJob, **more: Any) -> dict[str, Any]:
    """Return the metadata that every run has, together with `more`."""
    named = {"session": job.session} if job.session is not None else {}
    return {"mode": job.mode, **named, **more}


def exit_code(child: ScriptChild) -> int | None:
    """Return the exit code as shells show it; None if the process did not end."""
    if not child.exited.done():
        return None
    code = child.exited.result()
    return 128 - code if code < 0 else code


def _judge(end: RunEnd, child: ScriptChild, code: int | None) -> tuple[Status, str]:
    if end.status is not None:
        return end.status, end.message
    killer = _killer(child) if end.code is None else None
    if killer is not None:
        return "crashed", f"The process of the script died of signal {killer.value} ({killer.name})."
    lost = " What the session held is lost." if child.is_kernel and end.code is None else ""
    if code == 0:
        return "ok", lost.strip()
    return "error", f"The script ended with exit code {code}.{lost}"


def _killer(child: ScriptChild) -> signal.Signals | None:
    """Return the signal that ended the child, if any."""
    code = child.exited.result()
    if code >= 0:
        is_relayed = child.is_bounded and code - 128 in _DEADLY and code != child.reported
        code = 128 - code if is_relayed else 0
    try:
        return signal.Signals(-code) if code < 0 else None
    except ValueError:
        return None


AVAILABLE = sys.platform != "win32"
WINDOWS = "execute_code is not available on Windows. Use normal tool calls instead."

SCRIPT = "script.py"
"""The name of a script in tracebacks."""

Progress = Callable[[CodeProgress], None]


def ignore(_: CodeProgress) -> None:
    """Ignore progress."""


class CodeRunner(Service):
    """The runner of one session's scripts. Close it, because it holds a waiting child and the kernels.

    `secrets` are values, by name, that are masked in what scripts print; `passthrough` names variables they
    get in addition to the usual ones.
    """

    def __init__(
        self,
        boundary: Boundary | None = None,
        *,
        spare: bool = True,
        secrets: Mapping[str, str] | None = None,
        passthrough: tuple[str, ...] = (),
    ) -> None:
        self._secrets = secrets or {}
        self._passthrough = passthrough
        self._home = ChildHome(owner := os.urandom(6).hex(), KillGuard(owner), boundary)
        self._spare = SpareChild(self._home) if spare and AVAILABLE else None
        self._kernels = Kernels(self._home)
        self._environ: tuple[dict[str, str], dict[str, str]] | None = None
        self._stubs: tuple[tuple[Mapping[str, Any], ...], str] | None = None
        self._last: CodeJob | None = None

    def prepare_next(self) -> None:
        """Start a waiting child for another script like the last one, if one has run.

        Call it only when the effects of the script are settled: a boundary that is set up while files are
        restored would include files that are about to be deleted.
        """
        job, self._last = self._last, None
        if job is not None:
            self.prepare(job)

    def prepare(self, job: CodeJob, *, after: float = 0.0) -> None:
        """Start a waiting child in the background for scripts like `job`, if it is strict and uses no kernel.

        The script in `job` is not used. `after` delays the start by that many seconds.
        """
        if self._spare is not None and job.mode == "strict" and job.session is None:
            self._spare.prepare(lambda: self._recipe(job, Offer.of(job.tools, job.known)), after=after)

    async def ready(self) -> None:
        """Wait until the child that `prepare` starts, if any, is ready."""
        if self._spare is not None:
            await self._spare.ready()

    async def run(
        self,
        job: CodeJob,
        serve: Serve,
        progress: Progress = ignore,
        *,
        stop: asyncio.Event | None = None,
        clock: Clock | None = None,
        permit: PermitHost | None = None,
    ) -> CodeOutcome:
        """Run a script to its end and return the outcome.

        If `stop` is set, the running call is cancelled, then the child killed. Cancelling this coroutine does
        the same, and raises the cancellation afterwards. Time in `clock.paused()` does not count. `permit`
        asks about hosts the script contacts. Only a named kernel stays after a script that ended by itself.
        """
        if not AVAILABLE:
            return CodeOutcome(status="error", message=WINDOWS)
        clock = clock or Clock()
        offer = Offer.of(job.tools, job.known)
        try:
            recipe = await self._recipe(job, offer)
            child, is_warm = await self._child(job, recipe)
        except ToolError as error:
            return CodeOutcome(status="error", message=str(error), metadata=metadata(job))
        captures = child.captures = (
            Capture(job.limits.output, self._secrets),
            Capture(job.limits.errors, self._secrets),
        )
        clock.restart()
        dispatcher = child.server.dispatcher = CallDispatcher(
            offer, job.limits.calls, clock, serve, progress, self._secrets, captures[0].newest
        )
        end: RunEnd | None = None
        boundary = self._home.boundary
        over = boundary.mark_working(permit) if boundary is not None else None
        try:
            watch = RunWatch(child, job.limits, clock, dispatcher, stop or asyncio.Event())
            child.begin(job.script, self._kernels.cell(job) if child.is_kernel else SCRIPT)
            dispatcher.report()
            end = await watch.wait()
            seconds = clock.elapsed
        finally:
            if over is not None:
                over()
            await to_the_end(asyncio.ensure_future(self._finish(child, dispatcher, job, end)))
        assert end is not None
        done = outcome(job, end, child, dispatcher, captures, seconds)
        return replace(done, metadata={**done.metadata, "warm": is_warm})

    def hosts_refused(self, since: float) -> str:
        """Return a text on the hosts refused since `since`, a time of `time.monotonic`; or empty."""
        return "" if self._home.boundary is None else self._home.boundary.hosts_refused(since)

    async def aclose(self) -> None:
        """End all remaining children."""
        if self._spare is not None:
            await self._spare.aclose()
        await self._kernels.aclose()
        await on_thread(self._home.guard.close)

    async def _child(self, job: CodeJob, recipe: Recipe) -> tuple[ScriptChild, bool]:
        if job.session is not None:
            return await self._kernels.open(job, recipe)
        child = await self._spare.take(recipe) if self._spare is not None else None
        if child is not None:
            return child, True
        return await ScriptChild.start(recipe, self._home), False

    async def _finish(
        self, child: ScriptChild, dispatcher: CallDispatcher, job: CodeJob, end: RunEnd | None
    ) -> None:
        await dispatcher.close()
        child.server.dispatcher = None
        if child.is_kernel:
            returned = end is not None and end.code is not None
            if self._kernels.keeps(job, child, returned=returned):
                child.collect()
                return
            self._kernels.forget(child)
        await child.end(GRACE if child.exited.done() else job.limits.grace)
        self._last = job

    async def _recipe(self, job: CodeJob, offer: Offer) -> Recipe:
        environ = self._environ_for(job)
        folder = job.folder.resolve()
        return Recipe(
            interpreter=choose(job.mode, folder, environ),
            folder=folder,
            environ=tuple(sorted(environ.items())),
            module=await self._module(offer),
            memory=job.limits.memory,
            processes=job.limits.processes,
            private=await self._private(),
        )

    async def _private(self) -> tuple[Path, ...]:
        boundary = self._home.boundary
        if boundary is None or boundary.level == "none":
            return ()
        return await on_thread(boundary.private_files)

    def variables_for(self, job: CodeJob) -> Collection[str]:
        """Return the names of the variables a script like `job` gets."""
        return self._environ_for(job).keys()

    def _environ_for(self, job: CodeJob) -> dict[str, str]:
        """Return the child's environment. Cached, because finding secrets in it is slower than a start."""
        given = dict(job.environ or os.environ)
        if self._environ is None or self._environ[0] != given:
            self._environ = given, child_environment(given, self._passthrough)
        return self._environ[1]

    async def _module(self, offer: Offer) -> str:
        if self._stubs is None or self._stubs[0] != offer.tools:
            self._stubs = offer.tools, await asyncio.to_thread(generate, offer)
        return self._stubs[1]
