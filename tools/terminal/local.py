"""Commands on this computer."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGTERM
from typing import Literal

from tools.kit.children import kill_group
from tools.kit.threads import on_thread, to_the_end
from tools.kit.umask import person_umask
from tools.results import ToolError
from tools.services.sandbox import Boundary, Need, Wrapped
from tools.terminal.backend import Launch, Pump, ShellEnding, Sink
from tools.terminal.pipes import Pipes
from tools.terminal.process_tree import MARK, KillGuard, kill, relatives
from tools.terminal.shell import folders_file
from tools.terminal.waiting import IDLE, WaitingBoundary, draw_ahead, is_plain
from tools.text.safe_text import clean

# The command is on the first line, so that line numbers in errors match it.
START = {
    "bash": '. "$1"; builtin eval "$__hermes_options$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
    "sh": '. "$1"; eval "$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
}


_FOLDER = Path(__file__).parent
_DRAWN = 1.0
"""Seconds that a command waits for the boundary that is being drawn."""
_WRITE_PATIENCE = 5.0
"""Seconds after which input that the program does not read is dropped."""


@dataclass(frozen=True, slots=True)
class StartedShell:
    """A shell that has just been started."""

    process: subprocess.Popen[bytes]
    pipes: Pipes
    mark: str
    clear_up: tuple[Callable[[], None], ...]
    """To be called after its process group has ended."""


class LocalBackend:
    """Starts shells on this machine, inside `boundary` if there is one.

    `shell` overrides the detected path of the shell. After `waits_from` commands the boundary of the next one
    is drawn ahead; 0: never.
    """

    def __init__(
        self, shell: str | None = None, boundary: Boundary | None = None, waits_from: int = 1
    ) -> None:
        self._path = shell or shutil.which("bash") or "/bin/sh"
        self._boundary = boundary
        self._owner = secrets.token_hex(6)
        self._guard = KillGuard(self._owner)
        self._children: set[LocalChild] = set()
        self.ahead: WaitingBoundary | None = None
        """Drawn for the next command."""
        self._idle: asyncio.TimerHandle | None = None
        self._drawing: asyncio.Task[None] | None = None
        self._discarding: set[asyncio.Future[None]] = set()
        self._closed = False
        self._outdated = False
        """Whether what is being drawn is not for the present rules."""
        self._waits_from = waits_from
        self._plain = 0
        """How many commands could have had a boundary drawn ahead."""

    @property
    def shell(self) -> Literal["bash", "sh"]:
        return "bash" if Path(self._path).name.startswith("bash") else "sh"

    @property
    def place(self) -> str:
        return ""

    async def open(self) -> int:
        if self._boundary is not None and not self._boundary.is_ready:
            await on_thread(self._boundary.prepare)
        return 1

    async def start(self, launch: Launch) -> LocalChild:
        for child in [child for child in self._children if child.is_gone()]:
            self._forget(child)
        waiting: WaitingBoundary | None = None
        if is_plain(launch):
            if self._drawing is not None:
                # It is ready sooner than another one that is begun now.
                await asyncio.wait([self._drawing], timeout=_DRAWN)
            waiting = self.ahead
            self._release_ahead()
        # Rules and places are read from the disk.
        starting = asyncio.ensure_future(on_thread(self._begin, launch, waiting))
        try:
            started = await to_the_end(starting)
        except asyncio.CancelledError:
            if starting.exception() is None:
                child = self._follow(starting.result(), launch)
                child.watch(lambda _: None)
                await child.kill()
            raise
        finally:
            if waiting is not None and not waiting.is_taken:
                self._discard(waiting)
        return self._follow(started, launch)

    def _begin(self, launch: Launch, waiting: WaitingBoundary | None) -> StartedShell:
        """Start the shell: in the boundary that waits if it is what would be drawn now. Blocks."""
        boundary = self._boundary
        try:
            if waiting is not None and boundary is not None and waiting.fits(launch, boundary, _FOLDER):
                waiting.hand_over(launch)
                rested = boundary.at_work(launch.leave.permit, launch.leave.hosts)
                return StartedShell(waiting.process, waiting.pipes, waiting.mark, (rested, waiting.close))
        except (OSError, ToolError):
            # Drawn again, which says what is wrong.
            pass
        mark = f"{self._owner}.{launch.mark}"
        pipes = Pipes.open(launch)
        wrapped = Wrapped(argv=[])
        try:
            wrapped = self._wrap(launch, pipes.terminal)
            process = subprocess.Popen(
                wrapped.argv,
                stdin=pipes.child_input,
                stdout=pipes.child_output,
                stderr=pipes.child_output,
                cwd=launch.cwd,
                env=_environment(launch, wrapped, mark),
                pass_fds=wrapped.fds,
                start_new_session=True,
                umask=person_umask(),
            )
        except ToolError:
            pipes.close_ours()
            raise
        except OSError as error:
            pipes.close_ours()
            wrapped.ended()
            reason = error.strerror or str(error)
            raise ToolError(f"The command could not be started in {launch.cwd}: {reason}.") from error
        finally:
            pipes.close_theirs()
            wrapped.started()
        return StartedShell(process, pipes, mark, (wrapped.ended,))

    def _follow(self, started: StartedShell, launch: Launch) -> LocalChild:
        """Guard a shell until it is gone, and draw a boundary for the next command."""
        child = LocalChild(started, self._forget)
        self._guard.add(child.pid)
        self._children.add(child)
        if self._boundary is not None and is_plain(launch):
            self._plain += 1
            if 0 < self._waits_from <= self._plain:
                # While the command runs this thread has nothing else to do; it may also outlast what waits.
                child.on_end = lambda: self._draw_ahead(launch)
                self._draw_ahead(launch)
        return child

    def _draw_ahead(self, launch: Launch) -> None:
        boundary = self._boundary
        if self._closed or boundary is None or self.ahead is not None or self._drawing is not None:
            return
        self._outdated = False

        async def draw() -> None:
            try:
                arguments = self._arguments(launch, "")[:5]
                drawn = await to_the_end(
                    asyncio.ensure_future(
                        on_thread(draw_ahead, boundary, launch, self._owner, arguments, _FOLDER)
                    )
                )
            finally:
                self._drawing = None
            if drawn is None:
                return
            self._guard.add(drawn.process.pid)
            self.ahead = drawn
            if self._closed or self._outdated:
                self._discard_ahead()
            else:
                self._idle = asyncio.get_running_loop().call_later(IDLE, self._discard_ahead)

        self._drawing = asyncio.ensure_future(draw())

    def end_waiting(self) -> None:
        """End the boundary that waits for a command, because rules or settings have changed."""
        self._outdated = True
        self._discard_ahead()

    def _release_ahead(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self.ahead = self._idle = None

    def _discard_ahead(self) -> None:
        waiting = self.ahead
        self._release_ahead()
        if waiting is not None:
            self._discard(waiting)

    def _discard(self, waiting: WaitingBoundary) -> None:
        self._guard.remove(waiting.process.pid)
        task = asyncio.ensure_future(on_thread(waiting.discard))
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)

    async def aclose(self) -> None:
        self._closed = True
        if self._drawing is not None:
            await self._drawing
        self._discard_ahead()
        await asyncio.gather(*self._discarding)
        await asyncio.gather(*(child.kill() for child in list(self._children)))
        for child in self._children:
            child.clear_up()
        self._children.clear()
        await on_thread(self._guard.close)

    def _wrap(self, launch: Launch, terminal: str) -> Wrapped:
        if self._boundary is not None and launch.leave.outside:
            self._boundary.look_again()
        if self._boundary is None or launch.leave.outside:
            return Wrapped(argv=self._arguments(launch, terminal))
        new = launch.new_state
        need = Need(
            read=(_FOLDER, launch.command_file, launch.state),
            write=(new, folders_file(new)) if new is not None else (),
            terminal=terminal,
            network=launch.leave.network,
            opens=launch.leave.opens,
            lends=launch.leave.lends,
            hosts=launch.leave.hosts,
            permit=launch.leave.permit,
        )
        # Inside, the terminal may have another name, known once the boundary is set up.
        wrapped = self._boundary.wrap([], need)
        return replace(wrapped, argv=[*wrapped.argv, *self._arguments(launch, wrapped.terminal)])

    def _arguments(self, launch: Launch, terminal: str) -> list[str]:
        return [
            self._path,
            "-c",
            START[self.shell],
            self.shell,
            str(_FOLDER / f"prologue.{self.shell}"),
            str(launch.command_file),
            str(launch.state),
            str(launch.new_state or ""),
            terminal,
            "xterm-256color" if launch.pty else "dumb",
        ]

    def _forget(self, child: LocalChild) -> None:
        self._children.discard(child)
        self._guard.remove(child.pid)
        child.clear_up()


class LocalChild:
    """A shell on this machine, which leads a session and a process group."""

    def __init__(self, started: StartedShell, on_gone: Callable[[LocalChild], None]) -> None:
        self._process = started.process
        self._pipes = started.pipes
        self._mark = started.mark
        self._clear_up = started.clear_up
        self.on_end: Callable[[], None] = lambda: None
        """Called when the shell has ended."""
        self._on_gone = on_gone
        self._pump = Pump(self._process, self._pipes.output)
        self._pump.ending.add_done_callback(lambda _: self._settle())

    @property
    def pid(self) -> int:
        return self._process.pid

    def clear_up(self) -> None:
        """Clean up after the process group has ended. May be called again."""
        for each in self._clear_up:
            each()

    def watch(self, sink: Sink) -> None:
        self._pump.start(sink)

    async def ended(self) -> ShellEnding:
        return await asyncio.shield(self._pump.ending)

    def has_ended(self) -> bool:
        return self._pump.ending.done()

    def is_gone(self) -> bool:
        """Return whether the shell has ended and its process group is empty."""
        return self.has_ended() and not self._group_lives()

    async def write(self, data: bytes) -> None:
        target = self._pipes.input
        if target is None:
            raise ToolError("The input of this process is closed.")
        until = time.monotonic() + _WRITE_PATIENCE
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(target, rest) :]
                until = time.monotonic() + _WRITE_PATIENCE
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ToolError(
                        f"The process does not read its input; {len(rest)} of {len(data)} bytes are left."
                    ) from None
                await asyncio.sleep(0.01)
            except OSError as error:
                raise ToolError("The process has closed its input.") from error

    def close_input(self) -> None:
        if self._pipes.input is None:
            return
        if self._pipes.terminal:
            # A terminal has no end; its end-of-file character at the start of a line means the same.
            try:
                os.write(self._pipes.input, b"\x04")
            except OSError as error:
                raise ToolError("The process does not take any more input.") from error
        else:
            self._pipes.close_input()

    async def left_behind(self, *, thorough: bool) -> list[str]:
        if not thorough and not self._group_lives():
            return []
        found = await on_thread(relatives, self.pid, self._mark)
        return [f"{clean(relative.name)} ({relative.pid})" for relative in found if not relative.is_reaper]

    async def kill(self) -> None:
        if not self.has_ended():
            # Before anything can be scheduled in between; the rest takes a thread and a moment.
            kill_group(self.pid, SIGTERM)
        await to_the_end(asyncio.ensure_future(on_thread(kill, self.pid, self._mark)))

    def _settle(self) -> None:
        self._pipes.close_input()
        self.on_end()
        if self.is_gone():
            self._on_gone(self)

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def _environment(launch: Launch, wrapped: Wrapped, mark: str) -> dict[str, str]:
    env = {name: value for name, value in launch.env.items() if name not in wrapped.unset}
    return env | dict(wrapped.env) | {MARK: mark}
