"""Named interpreters that stay: what a script has defined is there for the next one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tools.code.data import CodeJob
from tools.code.process import ChildHome, Recipe, ScriptChild
from tools.results import ToolError

LIMIT = 4
"""Kernels that live at the same time; the one that has been idle longest goes first."""

IDLE = 1_800.0
"""Seconds after which a kernel that nobody uses is ended."""


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
        """Names of the living kernels of a task."""
        return [name for owner, name in self._kernels if owner == task]

    async def open(self, job: CodeJob, recipe: Recipe) -> tuple[ScriptChild, bool]:
        """The kernel `job` names, and whether it was there already. Raises `ToolError` when it is in use."""
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
        """A name for the next script of the kernel, for its tracebacks."""
        kernel = self._kernels[_key(job)]
        kernel.cells += 1
        return f"script-{kernel.cells}.py"

    def keeps(self, job: CodeJob, child: ScriptChild, *, returned: bool) -> bool:
        """A run is over: whether its kernel goes on living, which it does when the script `returned`."""
        kernel = self._kernels.get(_key(job))
        if kernel is None or kernel.child is not child or not returned or not child.is_alive:
            return False
        kernel.is_busy = False
        kernel.used = time.monotonic()
        key = _key(job)
        kernel.timer = asyncio.get_running_loop().call_later(self._idle, self._expire, key, kernel)
        return True

    def forget(self, child: ScriptChild) -> None:
        """A kernel has ended."""
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
    """Whether a kernel can go on: tools may come and go, its interpreter and its folder may not."""
    same = child.recipe.interpreter == recipe.interpreter and child.recipe.folder == recipe.folder
    return same and child.is_alive


def _key(job: CodeJob) -> tuple[str, str]:
    return job.task, job.session or ""
