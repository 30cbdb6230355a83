"""Commands on this computer."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import select
import shlex
import shutil
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
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
from tools.terminal.shell import folders_file, private_write
from tools.text.safe_text import clean


@dataclass(slots=True)
class Pipes:
    """Both ends of a child's input and output. `terminal` is the path of its terminal, or empty."""

    output: int
    child_output: int
    child_input: int
    input: int | None
    terminal: str = ""

    @classmethod
    def open(cls, launch: Launch) -> Pipes:
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

    @classmethod
    def waiting(cls) -> Pipes:
        """Return the pipes of a shell that waits for its command on its input."""
        output, child_output = os.pipe()
        child_input, control = os.pipe()
        return cls(output, child_output, child_input, control)

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


IDLE = 300.0
"""Seconds after which an unused boundary is discarded."""
_PATIENCE = 2.0
_START = 8.0
"""Seconds after which a boundary that is not ready is given up; a busy machine needs several."""
# Whatever comes is read to its end before any of it runs. If Hermes is gone, that is nothing.
_WAIT = "echo; . /dev/stdin; exit 125"
_READY = b"\n"
_OF_PLACE = ("PWD", "OLDPWD")
_numbers = itertools.count(1)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AheadFiles:
    """The files that a waiting boundary gives its command: the text, and the shell's old and new state."""

    command: Path
    state: Path
    new_state: Path

    def create(self) -> None:
        for path in (self.command, self.state, self.new_state, folders_file(self.new_state)):
            private_write(path, "")

    def remove(self) -> None:
        for path in (self.command, self.state, self.new_state, folders_file(self.new_state)):
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - in half the time, on the event loop

    def need(self, programs: Path) -> Need:
        return Need(
            read=(programs, self.command, self.state),
            write=(self.new_state, folders_file(self.new_state)),
            counts=False,
            waits=True,
        )


def is_plain(launch: Launch) -> bool:
    """Return whether a command needs only the usual boundary, so that a waiting one can be used."""
    permissions = launch.permissions
    special = (
        permissions.outside
        or permissions.network
        or permissions.guarded_paths
        or permissions.needs_git_copies
    )
    return not (special or launch.pty or launch.keeps_input) and launch.new_state is not None


class WaitingBoundary:
    """A boundary that was started in advance and waits for its command."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pipes: Pipes,
        wrapped: Wrapped,
        files: AheadFiles,
        mark: str,
        env: Mapping[str, str],
    ) -> None:
        self.process = process
        self.pipes = pipes
        self.wrapped = wrapped
        self.files = files
        self.mark = mark
        self._env = env
        self.is_taken = False
        """Whether a command has started in it."""

    def fits(self, launch: Launch, boundary: Boundary, programs: Path) -> bool:
        """Return whether a boundary made now for `launch` would be the same."""
        if self.process.poll() is not None or not is_plain(launch) or _general(launch.env) != self._env:
            return False
        return boundary.still_fits(self.wrapped, self.files.need(programs), self.process.pid)

    def start_command(self, launch: Launch) -> None:
        """Start the command in the boundary. Raises `OSError` if that fails."""
        assert launch.new_state is not None
        _fill(self.files.command, launch.command_file)
        _fill(self.files.state, launch.state)
        pairs = ((self.files.new_state, launch.new_state),)
        for inside, outside in (*pairs, *((folders_file(a), folders_file(b)) for a, b in pairs)):
            # A second name of the file that is mounted: the caller reads it under its own.
            second = outside.with_name(f"{outside.name}.second")
            os.link(inside, second)
            second.replace(outside)
        place = "".join(
            f"{name}={shlex.quote(launch.env[name])}; export {name}; "
            if name in launch.env
            else f"unset {name}; "
            for name in _OF_PLACE
        )
        start = f'{{ cd -P {shlex.quote(str(launch.cwd))} || exit 125; {place}exec "$@" 0<>/dev/null; }}\n'
        control = self.pipes.input
        assert control is not None
        rest = memoryview(os.fsencode(start))
        while rest:
            rest = rest[os.write(control, rest) :]
        self.is_taken = True
        self.pipes.close_input()

    def discard(self) -> None:
        """End the unused boundary. Blocks until its processes have ended."""
        self.pipes.close_ours()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE)
        if self.process.returncode is None:
            kill(self.process.pid, self.mark)
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Clean up after the boundary's processes have ended. May be called again."""
        self.wrapped.ended()
        self.files.remove()


def start_ahead(
    boundary: Boundary, launch: Launch, owner: str, arguments: list[str], programs: Path
) -> WaitingBoundary | None:
    """Start a boundary in advance for a later command like `launch`; return None if that fails.

    `arguments` start the shell, up to the files of the call. Blocks.
    """
    waiting: WaitingBoundary | None = None
    try:
        waiting = _start(boundary, launch, owner, arguments, programs)
        ready = select.poll()
        ready.register(waiting.pipes.output, select.POLLIN)
        if ready.poll(_START * 1000) and os.read(waiting.pipes.output, 1) == _READY:
            boundary.withdraw(waiting.wrapped)
            return waiting
    except Exception:
        # The next command draws its own, and says what is wrong.
        log.debug("no boundary waits", exc_info=True)
    if waiting is not None:
        waiting.discard()
    return None


def _start(
    boundary: Boundary, launch: Launch, owner: str, arguments: list[str], programs: Path
) -> WaitingBoundary:
    folder, name = launch.command_file.parent, f"ahead-{next(_numbers)}"
    files = AheadFiles(folder / f"{name}.command", folder / f"{name}.before", folder / f"{name}.state")
    mark = f"{owner}.{name}"
    # A stored state brings the variables that a shell can name.
    env = {each: text for each, text in _general(launch.env).items() if not each.isidentifier()}
    wrapped = Wrapped(argv=[])
    pipes = Pipes.waiting()
    try:
        files.create()
        wrapped = boundary.wrap([], files.need(programs))
        if wrapped.shape is None:
            raise OSError("nothing can wait here")
        files_of_call = [str(files.command), str(files.state), str(files.new_state), "", "dumb"]
        process = subprocess.Popen(
            [*wrapped.argv, "/bin/sh", "-c", _WAIT, "sh", *arguments, *files_of_call],
            stdin=pipes.child_input,
            stdout=pipes.child_output,
            stderr=pipes.child_output,
            cwd="/",
            env={**{a: b for a, b in env.items() if a not in wrapped.unset}, **wrapped.env, MARK: mark},
            pass_fds=wrapped.fds,
            start_new_session=True,
            umask=person_umask(),
        )
        return WaitingBoundary(process, pipes, wrapped, files, mark, env)
    except BaseException:
        pipes.close_ours()
        wrapped.ended()
        files.remove()
        raise
    finally:
        pipes.close_theirs()
        wrapped.started()


def _general(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that do not depend on the folder."""
    return {name: text for name, text in env.items() if name not in _OF_PLACE}


def _fill(path: Path, source: Path) -> None:
    """Replace the content of a file in place, because it is mounted. A missing `source` counts as empty."""
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        content = b""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


# The command is on the first line, so that line numbers in errors match it.
START = {
    "bash": '. "$1"; builtin eval "$__hermes_options$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
    "sh": '. "$1"; eval "$__hermes_command"; { __hermes_end "$?"; } 2>/dev/null',
}


_FOLDER = Path(__file__).parent
_DRAWN = 1.0
"""Seconds that a command waits for the boundary that is being prepared."""
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
    """A backend that starts shells on this machine, inside `boundary` if there is one.

    `shell` overrides the detected path of the shell. After `waits_from` commands the boundary of the next one
    is started in advance; 0: never.
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
        """The boundary prepared for the next command; None if there is none."""
        self._idle: asyncio.TimerHandle | None = None
        self._drawing: asyncio.Task[None] | None = None
        self._discarding: set[asyncio.Future[None]] = set()
        self._closed = False
        self._outdated = False
        """Whether the boundary being prepared no longer fits the rules."""
        self._waits_from = waits_from
        self._plain = 0
        self.given: dict[str, str] = {}
        """The variables that the boundary gave to commands."""
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
        starting = on_thread(self._begin, launch, waiting)
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
        """Start the shell, in the waiting boundary if that is still suitable, else in a new one. Blocks."""
        boundary = self._boundary
        try:
            if waiting is not None and boundary is not None and waiting.fits(launch, boundary, _FOLDER):
                waiting.start_command(launch)
                self.given.update(waiting.wrapped.env)
                end_work = boundary.mark_working(launch.permissions.permit, launch.permissions.hosts)
                return StartedShell(waiting.process, waiting.pipes, waiting.mark, (end_work, waiting.close))
        except (OSError, ToolError):
            # Drawn again, which says what is wrong.
            pass
        mark = f"{self._owner}.{launch.mark}"
        pipes = Pipes.open(launch)
        wrapped = Wrapped(argv=[])
        try:
            wrapped = self._wrap(launch, pipes.terminal)
            self.given.update(wrapped.env)
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
        """Watch a shell until it has ended, and start a boundary for the next command."""
        child = LocalChild(started, self._forget)
        self._guard.add(child.pid)
        self._children.add(child)
        if self._boundary is not None and is_plain(launch):
            self._plain += 1
            if 0 < self._waits_from <= self._plain:
                # While the command runs this thread has nothing else to do; it may also outlast what waits.
                child.on_end = lambda: self._start_ahead(launch)
                self._start_ahead(launch)
        return child

    def _start_ahead(self, launch: Launch) -> None:
        boundary = self._boundary
        if self._closed or boundary is None or self.ahead is not None or self._drawing is not None:
            return
        self._outdated = False

        async def draw() -> None:
            try:
                arguments = self._arguments(launch, "")[:5]
                drawn = await to_the_end(
                    on_thread(start_ahead, boundary, launch, self._owner, arguments, _FOLDER)
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
        task = on_thread(waiting.discard)
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
        if self._boundary is not None and launch.permissions.outside:
            self._boundary.recheck()
        if self._boundary is None or launch.permissions.outside:
            return Wrapped(argv=self._arguments(launch, terminal))
        new = launch.new_state
        need = Need(
            read=(_FOLDER, launch.command_file, launch.state),
            write=(new, folders_file(new)) if new is not None else (),
            terminal=terminal,
            network=launch.permissions.network,
            guarded_paths=launch.permissions.guarded_paths,
            needs_git_copies=launch.permissions.needs_git_copies,
            hosts=launch.permissions.hosts,
            permit=launch.permissions.permit,
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

    async def remaining_processes(self, *, thorough: bool) -> list[str]:
        if not thorough and not self._group_lives():
            return []
        found = await on_thread(relatives, self.pid, self._mark)
        return [f"{clean(relative.name)} ({relative.pid})" for relative in found if not relative.is_reaper]

    async def kill(self) -> None:
        if not self.has_ended():
            # Before anything can be scheduled in between; the rest takes a thread and a moment.
            kill_group(self.pid, SIGTERM)
        await to_the_end(on_thread(kill, self.pid, self._mark))

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
