"""Running scripts: a child for each, watched to its end, whatever way that comes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.code.allowed import Offer
from tools.code.call_dispatcher import CallDispatcher
from tools.code.capture import Capture
from tools.code.clock import Clock
from tools.code.data import CodeJob, CodeOutcome, CodeProgress, Serve
from tools.code.interpreter import choose
from tools.code.kernels import Kernels
from tools.code.outcomes import metadata, outcome
from tools.code.process import ChildHome, Recipe, ScriptChild
from tools.code.run_watch import RunEnd, RunWatch
from tools.code.spare_child import SpareChild
from tools.code.stubs import generate
from tools.results import ToolError
from tools.services.sandbox import Boundary, PermitHost
from tools.terminal.environment import child_environment
from tools.terminal.kill_guard import KillGuard
from tools.terminal.process_tree import GRACE
from tools.terminal.threads import on_thread, to_the_end

AVAILABLE = sys.platform != "win32"
WINDOWS = "execute_code is not available on Windows. Use normal tool calls instead."

SCRIPT = "script.py"
"""The name of a script in tracebacks."""

Progress = Callable[[CodeProgress], None]


def ignore(_: CodeProgress) -> None:
    """A watcher that does not look."""


class CodeRunner:
    """Runs the scripts of one session. Close it: it holds a waiting child and the kernels.

    `secrets` are values, by name, that are masked in what scripts print; `passthrough` names
    variables they get beside the usual ones.
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
        """Have a child wait for another script like the last one; nothing where none has run since.

        Call it once what the script did is settled: a boundary drawn while files are put back would be
        drawn around what goes away.
        """
        job, self._last = self._last, None
        if job is not None:
            self.prepare(job)

    def prepare(self, job: CodeJob, *, after: float = 0.0) -> None:
        """Have a child wait for scripts like `job`; its script does not matter. Returns at once.

        `after` delays its start by that many seconds.
        """
        if self._spare is not None and job.mode == "strict" and job.session is None:
            self._spare.prepare(lambda: self._recipe(job, Offer.of(job.tools, job.known)), after=after)

    async def ready(self) -> None:
        """Wait for the child that `prepare` starts."""
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
        """Run a script to its end and say how that came.

        Setting `stop` interrupts: the call under way is cancelled, then the child
        killed. Cancelling does the same, and the cancellation passes on. Time in
        `clock.paused()` does not count. `permit` asks about hosts the script reaches for.
        Nothing of the script is left running.
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
        over = boundary.at_work(permit) if boundary is not None else None
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
        """What to say about hosts that were not let through since a moment of `time.monotonic`, or empty."""
        return "" if self._home.boundary is None else self._home.boundary.hosts_refused(since)

    async def aclose(self) -> None:
        """End every child that is left."""
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
        return await on_thread(boundary.private)

    def given(self, job: CodeJob) -> Collection[str]:
        """The variables a script like `job` gets, by name."""
        return self._environ_for(job).keys()

    def _environ_for(self, job: CodeJob) -> dict[str, str]:
        """What the child inherits. Kept: telling secrets by name takes longer than starting a script."""
        given = dict(job.environ or os.environ)
        if self._environ is None or self._environ[0] != given:
            self._environ = given, child_environment(given, self._passthrough)
        return self._environ[1]

    async def _module(self, offer: Offer) -> str:
        if self._stubs is None or self._stubs[0] != offer.tools:
            self._stubs = offer.tools, await asyncio.to_thread(generate, offer)
        return self._stubs[1]
