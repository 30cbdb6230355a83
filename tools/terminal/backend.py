"""The interface of every terminal backend, and reading the output of its children."""

from __future__ import annotations

import asyncio
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tools.services.sandbox import PermitHost

Sink = Callable[[bytes], None]

_PIECE = 8_192
"""Bytes per read, which bounds how long the event loop waits."""
_POLL = 0.02
"""Seconds between checks of a child if the system has no process descriptors."""
_QUIET = 0.04
"""Seconds without output after which an ended child's output counts as complete."""
_DRAIN = 0.5
"""Seconds for reading the rest of an ended child's pipe."""


@dataclass(frozen=True, slots=True)
class ShellEnding:
    """How a shell ended. `still_open` means that a descendant still holds its output open."""

    code: int
    """Exit code; 128 + n when signal n ended it."""
    still_open: bool


class Pump:
    """A reader that passes every piece of `output` of `process` to a sink, on a separate thread.

    The event loop is notified when the process has ended. If a descendant keeps the output open, the thread
    continues reading and discards the data, so that the descendant does not die of a closed or full pipe.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self._process = process
        self._output = output
        self._loop = asyncio.get_running_loop()
        self.ending: asyncio.Future[ShellEnding] = self._loop.create_future()

    def start(self, sink: Sink) -> None:
        threading.Thread(target=self._run, args=(sink,), name="terminal-output", daemon=True).start()

    def _run(self, sink: Sink) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._output, selectors.EVENT_READ)
                is_open = self._read_until_end(selector, sink)
                if is_open:
                    is_open = self._drain(selector, sink)
                code = self._process.wait()
                self._tell(ShellEnding(code if code >= 0 else 128 - code, is_open))
                while is_open:
                    selector.select()
                    is_open = self._read() != b""
        except BaseException as error:
            self._tell(error)
            raise
        finally:
            os.close(self._output)

    def _read_until_end(self, selector: selectors.BaseSelector, sink: Sink) -> bool:
        """Read while the process lives; return whether its output is still open afterwards."""
        ends = _process_descriptor(self._process.pid)
        is_open = True
        try:
            if ends is not None:
                selector.register(ends, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(None if ends is not None else _POLL)}
                if self._output in ready:
                    piece = self._read()
                    if piece != b"":
                        sink(piece or b"")
                        continue
                    selector.unregister(self._output)
                    is_open = False
                if (ends in ready) if ends is not None else self._process.poll() is not None:
                    return is_open
        finally:
            if ends is not None:
                selector.unregister(ends)
                os.close(ends)

    def _drain(self, selector: selectors.BaseSelector, sink: Sink) -> bool:
        until = time.monotonic() + _DRAIN
        while time.monotonic() < until:
            if not selector.select(_QUIET):
                break
            piece = self._read()
            if piece == b"":
                return False
            sink(piece or b"")
        return True

    def _read(self) -> bytes | None:
        """Return the next piece of output; empty at the end, None if none is available yet."""
        try:
            return os.read(self._output, _PIECE)
        except BlockingIOError:
            return None
        except OSError:
            # This is how a terminal reports its end.
            return b""

    def _tell(self, outcome: ShellEnding | BaseException) -> None:
        def tell() -> None:
            if self.ending.done():
                return
            if isinstance(outcome, ShellEnding):
                self.ending.set_result(outcome)
            else:
                self.ending.set_exception(outcome)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass


def _process_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if the system lacks this."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


COLUMNS, ROWS = 120, 40
"""Size of the terminal that a command with `pty` runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPermissions:
    """The permissions that the user gave one command beyond the sandbox policy."""

    outside: bool = False
    """Whether it runs without the sandbox."""
    network: bool = False
    """Whether it may use the network if that needs permission."""
    hosts: frozenset[str] = frozenset()
    """Hosts it may reach if the network is filtered."""
    guarded_paths: tuple[Path, ...] = ()
    """Guarded paths that it may change."""
    needs_git_copies: bool = False
    """Whether it gets copies of git's settings to change."""
    permit: PermitHost | None = None
    """Asks about other hosts; None: the session asks."""


NO_EXTRA_PERMISSIONS = CommandPermissions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The description of a shell to start.

    `mark` is set in the environment, which all descendants inherit, so that they can be found.
    """

    cwd: Path
    env: Mapping[str, str]
    state: Path
    """The initial state of the shell; the file may be missing."""
    new_state: Path | None
    """The file to which the shell writes its state at its end; None for no file."""
    command_file: Path
    """Private file with the text of the command, which may be too large for an argument."""
    mark: str
    pty: bool = False
    keeps_input: bool = False
    """Whether standard input stays open for `write`; otherwise it is empty."""
    permissions: CommandPermissions = NO_EXTRA_PERMISSIONS


class ShellChild(Protocol):
    """A running shell with all its descendants."""

    @property
    def pid(self) -> int: ...

    def watch(self, sink: Sink) -> None:
        """Begin to read the output. `sink` is called on a thread, in order, with every piece."""

    async def ended(self) -> ShellEnding:
        """Wait until the shell has ended and its output is read. Several callers may wait."""
        ...

    def has_ended(self) -> bool: ...

    async def write(self, data: bytes) -> None:
        """Write to the shell's input. Raises `ToolError` if the shell no longer reads it."""
        ...

    def close_input(self) -> None: ...

    async def remaining_processes(self, *, thorough: bool) -> list[str]:
        """Return the processes that still run, for the user: name and id, such as `sleep (4711)`.

        Without `thorough` only the shell's process group is checked.
        """
        ...

    async def kill(self) -> None:
        """End the shell and every descendant, by SIGTERM and, after a moment, by SIGKILL."""


class Backend(Protocol):
    """A machine or container in which shells can be started."""

    @property
    def place(self) -> str:
        """The name of the machine or container in messages; empty for this machine."""
        ...

    async def open(self) -> int:
        """Connect to the machine or container. Raises `ToolError` with the cause if that fails.

        Returns a number that changes when state that shells left there is lost.
        """
        ...

    @property
    def shell(self) -> Literal["bash", "sh"]:
        """The program that runs the commands. A plain `sh` keeps less state between calls."""
        ...

    async def start(self, launch: Launch) -> ShellChild:
        """Start a shell; none is left if the wait is cancelled. Raises `ToolError` with the cause."""
        ...

    async def aclose(self) -> None:
        """Kill everything that was started and is still running."""
