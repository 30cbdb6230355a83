"""A boundary that was drawn ahead and waits for one command.

Drawing a boundary takes longer than most commands. So the next boundary is drawn while a command runs: a
shell inside blocks on its input until the next command comes. It takes exactly one. If anything that the
boundary was drawn for is different by then, it is discarded unused.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.kit.umask import person_umask
from tools.services.sandbox import Boundary, Need, Wrapped
from tools.terminal.backend import Launch
from tools.terminal.pipes import Pipes
from tools.terminal.process_tree import MARK, kill
from tools.terminal.shell import folders_file, private_write

IDLE = 300.0
"""Seconds after which an unused boundary is discarded."""
_PATIENCE = 2.0
_DRAWN = 8.0
"""Seconds after which a boundary that is not ready is given up; a busy machine needs several."""
# Whatever comes is read to its end before any of it runs. If Hermes is gone, that is nothing.
_WAIT = "echo; . /dev/stdin; exit 125"
_READY = b"\n"
_OF_PLACE = ("PWD", "OLDPWD")
_numbers = itertools.count(1)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AheadFiles:
    """The files that a waiting boundary shows its command: its text, and the state before and after it."""

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
    """Return whether a command needs nothing but the usual boundary, so that a waiting one may do."""
    leave = launch.leave
    special = leave.outside or leave.network or leave.opens or leave.lends
    return not (special or launch.pty or launch.keeps_input) and launch.new_state is not None


class WaitingBoundary:
    """One started and still empty boundary."""

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
        """Whether its command runs in it."""

    def fits(self, launch: Launch, boundary: Boundary, programs: Path) -> bool:
        """Return whether a boundary drawn now for `launch` would be the same."""
        if self.process.poll() is not None or not is_plain(launch) or _general(launch.env) != self._env:
            return False
        return boundary.still_fits(self.wrapped, self.files.need(programs), self.process.pid)

    def hand_over(self, launch: Launch) -> None:
        """Let the command run. Raises `OSError`; then it did not."""
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
        """End it unused. Blocks until nothing of it is left."""
        self.pipes.close_ours()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE)
        if self.process.returncode is None:
            kill(self.process.pid, self.mark)
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Clean up after nothing of it is left. May be called again."""
        self.wrapped.ended()
        self.files.remove()


def draw_ahead(
    boundary: Boundary, launch: Launch, owner: str, arguments: list[str], programs: Path
) -> WaitingBoundary | None:
    """Draw a boundary for a command like `launch` that comes after it; None if that is not possible.

    `arguments` start the shell, up to the files of the call. Blocks.
    """
    waiting: WaitingBoundary | None = None
    try:
        waiting = _start(boundary, launch, owner, arguments, programs)
        ready = select.poll()
        ready.register(waiting.pipes.output, select.POLLIN)
        if ready.poll(_DRAWN * 1000) and os.read(waiting.pipes.output, 1) == _READY:
            boundary.rest(waiting.wrapped)
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
    """Replace the content of a file, which stays the same one because it is mounted."""
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        content = b""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
