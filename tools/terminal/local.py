"""Commands on this computer."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import termios
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
from tools.terminal.backend import COLUMNS, ROWS, Launch, Pump, ShellEnding, Sink
from tools.terminal.process_tree import MARK, KillGuard, kill, relatives
from tools.terminal.shell import folders_file
from tools.text.safe_text import clean

# The command is on the first line, so that line numbers in errors match it.
START = {
    "bash": '. "$1"; builtin eval "$__hermes_options$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
    "sh": '. "$1"; eval "$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
}


_FOLDER = Path(__file__).parent
_WRITE_PATIENCE = 5.0
"""Seconds after which input that the program does not read is dropped."""


class LocalBackend:
    """Starts shells on this machine, inside `boundary` if there is one.

    `shell` overrides the detected path of the shell.
    """

    def __init__(self, shell: str | None = None, boundary: Boundary | None = None) -> None:
        self._path = shell or shutil.which("bash") or "/bin/sh"
        self._boundary = boundary
        self._owner = secrets.token_hex(6)
        self._guard = KillGuard(self._owner)
        self._children: set[LocalChild] = set()

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

    def start(self, launch: Launch) -> LocalChild:
        for child in [child for child in self._children if child.is_gone()]:
            self._forget(child)
        mark = f"{self._owner}.{launch.mark}"
        pipes = _Pipes.open(launch)
        wrapped: Wrapped | None = None
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
            if wrapped is not None:
                wrapped.ended()
            reason = error.strerror or str(error)
            raise ToolError(f"The command could not be started in {launch.cwd}: {reason}.") from error
        finally:
            pipes.close_theirs()
            if wrapped is not None:
                wrapped.started()
        child = LocalChild(process, pipes, mark, self._forget)
        if wrapped is not None:
            child.clear_up = wrapped.ended
        self._children.add(child)
        self._guard.add(process.pid)
        return child

    async def aclose(self) -> None:
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

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pipes: _Pipes,
        mark: str,
        on_gone: Callable[[LocalChild], None],
    ) -> None:
        self._process = process
        self._pipes = pipes
        self._mark = mark
        self.clear_up: Callable[[], None] = lambda: None
        """The cleanup after the process group has ended."""
        self._on_gone = on_gone
        self._pump = Pump(process, pipes.output)
        self._pump.ending.add_done_callback(lambda _: self._settle())

    @property
    def pid(self) -> int:
        return self._process.pid

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


@dataclass(slots=True)
class _Pipes:
    """Both ends of a child's input and output. `terminal` is the path of its terminal, or empty."""

    output: int
    child_output: int
    child_input: int
    input: int | None
    terminal: str = ""

    @classmethod
    def open(cls, launch: Launch) -> _Pipes:
        if launch.pty:
            ours, theirs = os.openpty()
            termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
            keeps = os.dup(ours) if launch.keeps_input else None
            pipes = cls(ours, theirs, theirs, keeps, os.ttyname(theirs))
        else:
            ours, theirs = os.pipe()
            pipes = cls(ours, theirs, subprocess.DEVNULL, None)
            if launch.keeps_input:
                pipes.child_input, pipes.input = os.pipe()
        if pipes.input is not None:
            os.set_blocking(pipes.input, False)
        return pipes

    def close_theirs(self) -> None:
        """Close the ends that only the child needs, in this process."""
        for descriptor in {self.child_output, self.child_input}:
            if descriptor >= 0:
                os.close(descriptor)

    def close_ours(self) -> None:
        os.close(self.output)
        self.close_input()

    def close_input(self) -> None:
        if self.input is not None:
            os.close(self.input)
            self.input = None
