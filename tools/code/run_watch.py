"""Watching one run until it is over: the child's end, the time limit, a person's stop, too many processes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tools.code.call_dispatcher import CallDispatcher
from tools.code.clock import Clock
from tools.code.data import CodeLimits, Status
from tools.code.process import ScriptChild, threads_of_system
from tools.code.rpc import RpcRequest
from tools.terminal.threads import on_thread

_TICK = 0.1
"""Seconds between looks at the clock, the output and the number of processes."""
_LAST_WORD = 3.0
"""Seconds a kernel gets to come back from an interruption with its state."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run was ended; `code` is what the script itself reported, None when its process is gone."""

    status: Status | None
    """None: by itself."""
    code: int | None = None
    message: str = ""


class RunWatch:
    """Waits for the end of one run. Ends the script's calls, not its process."""

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
        self._shown = 0
        child.server.on_event = self._note

    async def wait(self) -> RunEnd:
        """Wait for the first reason to end. A script that has to be stopped has its calls stopped first."""
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
            return await self._stopped("interrupted", "The script was interrupted.")
        if not self._clock.is_paused and self._clock.elapsed >= self._limits.seconds:
            return await self._stopped("timeout", f"The script was stopped after {self._limits.seconds:g} s.")
        if await self._is_swarm():
            many = f"The script was killed: it had started more than {self._limits.processes} processes."
            await self._dispatcher.close()
            return RunEnd("crashed", None, many)
        return None

    async def _stopped(self, status: Status, message: str) -> RunEnd:
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
        """Whether the script has started too many processes; counted only when the whole system has."""
        limit = self._limits.processes
        if not limit or threads_of_system() - self._threads <= limit:
            return False
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
