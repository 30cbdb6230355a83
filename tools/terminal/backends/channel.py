"""Two-way streams of bytes to a program at the far side, and the one that a client program carries."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from tools.kit.children import kill_group
from tools.results import ToolError
from tools.terminal.backend import COLUMNS, ROWS

_PIECE = 8_192
_WRITE_PATIENCE = 5.0
"""Seconds after which input that nobody reads is given up."""
# The first terminal a session leader opens becomes its controlling terminal.
_ON_TERMINAL = 'exec <>"$1" >&0 2>&1; shift; exec "$@"'


class Channel(Protocol):
    """A program at the far side, seen from here. All methods block; they are called on threads.

    `read` belongs to one thread, and so does `finish`, its last call; the others may come from anywhere.
    """

    def read(self, timeout: float | None = None) -> bytes | None:
        """The next bytes; empty at the end, None when `timeout` seconds went by without any."""
        ...

    def write(self, data: bytes) -> None:
        """Raises `ToolError` when nobody reads."""
        ...

    def close_input(self) -> None: ...

    def stop(self) -> None:
        """Break the connection off. `read` comes to its end."""
        ...

    def finish(self) -> int:
        """Clear up, and the exit code of the program that carried the channel."""
        ...


class ClientChannel:
    """The channel of a client program such as `ssh`: a child process that leads a session of its own.

    Raises `FileNotFoundError` when there is no such program.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, pty: bool = False) -> None:
        self._lock = threading.Lock()
        self._terminal = pty
        if pty:
            ours, theirs = os.openpty()
            termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
            self._output, self._input = ours, os.dup(ours)
            child_input = child_output = theirs
            argv = ["/bin/sh", "-c", _ON_TERMINAL, "sh", os.ttyname(theirs), *argv]
        else:
            self._output, child_output = os.pipe()
            child_input, self._input = os.pipe()
        os.set_blocking(self._input, False)
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=child_input,
                stdout=child_output,
                stderr=child_output,
                cwd="/",
                env=dict(env),
                start_new_session=True,
            )
        except OSError:
            os.close(self._output)
            os.close(self._input)
            raise
        finally:
            for descriptor in {child_input, child_output}:
                os.close(descriptor)

    def read(self, timeout: float | None = None) -> bytes | None:
        if timeout is not None and not select.select([self._output], [], [], timeout)[0]:
            return None
        try:
            return os.read(self._output, _PIECE)
        except BlockingIOError:
            # The two ends of a terminal share one descriptor's mode.
            select.select([self._output], [], [])
            return self.read(timeout)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        until = time.monotonic() + _WRITE_PATIENCE
        rest = memoryview(data)
        while rest:
            with self._lock:
                if self._input < 0:
                    raise ToolError("The input of this process is closed.")
                try:
                    rest = rest[os.write(self._input, rest) :]
                    until = time.monotonic() + _WRITE_PATIENCE
                    continue
                except BlockingIOError:
                    pass
                except OSError as error:
                    raise ToolError("The process has closed its input.") from error
            if time.monotonic() > until:
                raise ToolError(
                    f"The process does not read its input; {len(rest)} of {len(data)} bytes are left."
                )
            time.sleep(0.01)

    def close_input(self) -> None:
        if self._terminal:
            # A terminal has no end; its end-of-file character at the start of a line means the same.
            self.write(b"\x04")
        else:
            self._close_input()

    def stop(self) -> None:
        kill_group(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            kill_group(self._process.pid, signal.SIGKILL)

    def finish(self) -> int:
        self._close_input()
        with self._lock:
            os.close(self._output)
        try:
            return self._process.wait(2)
        except subprocess.TimeoutExpired:
            self.stop()
            return self._process.wait()

    def _close_input(self) -> None:
        with self._lock:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1
