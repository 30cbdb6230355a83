"""Channels to hosts and containers, the programs that open them, and reconnecting."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tools.kit.children import kill_group
from tools.kit.descriptors import wait_until_ready
from tools.results import ToolError
from tools.terminal.backend import COLUMNS, ROWS
from tools.text.safe_text import clean

_PIECE = 8_192
_WRITE_PATIENCE = 5.0
"""Seconds after which input that the program does not read is dropped."""
# The first terminal a session leader opens becomes its controlling terminal.
_ON_TERMINAL = 'exec <>"$1" >&0 2>&1; shift; exec "$@"'


class Channel(Protocol):
    """The connection to a program on the remote side. All methods block and are called on threads.

    Only one thread may call `read` and then, as the last call, `finish`. The other methods may be called from
    any thread.
    """

    def read(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes; empty at the end, None if `timeout` seconds passed without any."""
        ...

    def write(self, data: bytes) -> None:
        """Write bytes. Raises `ToolError` if the program no longer reads."""
        ...

    def close_input(self) -> None: ...

    def stop(self) -> None:
        """Break the connection. `read` then reaches its end."""
        ...

    def finish(self) -> int:
        """Clean up, and return the exit code of the program that carried the channel."""
        ...


class ClientChannel:
    """The channel of a client program such as `ssh`: a child process that leads a session.

    Raises `FileNotFoundError` if the program is missing.
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
        if timeout is not None and not wait_until_ready(self._output, seconds=timeout):
            return None
        try:
            return os.read(self._output, _PIECE)
        except BlockingIOError:
            # The two ends of a terminal share one descriptor's mode.
            wait_until_ready(self._output)
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


class Connector(Protocol):
    """A way to run programs on one machine or in one container.

    All methods block and are called on threads.
    """

    @property
    def place(self) -> str:
        """The name of the machine or container in messages, such as `the container of python:3.12`."""
        ...

    def anchor(self, command: Sequence[str]) -> Channel:
        """Start machine or container and one persistent program; return its channel. Raises `ToolError`."""
        ...

    def call(self, command: Sequence[str], *, pty: bool) -> Channel:
        """Start a program there, and return its channel. Raises `ToolError`."""
        ...

    def explain(self, words: str) -> str:
        """Return one sentence on why a program did not start. `words` is its output."""
        ...

    def release(self) -> None:
        """Shut down the machine or container after the anchor has ended. May be called again."""
        ...


_USUAL = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"}
)
_SHORT = 30.0
"""The time limit in seconds of a management call."""
_SHOWN = 300


class Client:
    """A local client program. It gets the usual environment variables and those named in `own`."""

    def __init__(self, program: str, environ: Mapping[str, str], own: Sequence[str] = ()) -> None:
        self.program = program
        self.env = {
            name: value
            for name, value in environ.items()
            if name in _USUAL or name in own or name.startswith("LC_")
        }
        self.env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        self.env["TERM"] = "xterm-256color"

    def path(self) -> str:
        """Return the path of the program. Raises `ToolError` if it is missing."""
        found = shutil.which(self.program, path=self.env["PATH"])
        if found is None:
            raise ToolError(
                f"The program {self.program} is not installed, so commands cannot run there; "
                "install it or set terminal.backend to local."
            )
        return str(Path(found).absolute())

    def channel(self, arguments: Sequence[str], *, pty: bool = False) -> ClientChannel:
        """Start the program with its input and output as a channel. Raises `ToolError`."""
        path = self.path()
        try:
            return ClientChannel([path, *arguments], self.env, pty=pty)
        except OSError as error:
            raise ToolError(f"{path} could not be started: {error.strerror or error}.") from error

    def run(self, arguments: Sequence[str], *, patience: float = _SHORT) -> tuple[int, str]:
        """Return exit code and output of a short call. Raises `ToolError` if it takes too long."""
        try:
            done = subprocess.run(
                [self.path(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd="/",
                timeout=patience,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolError(f"{self.program} did not answer within {patience:g} s.") from None
        except OSError as error:
            raise ToolError(f"{self.program} could not be started: {error.strerror or error}.") from error
        return done.returncode, done.stdout.decode("utf-8", "replace")


def last_words(words: str) -> str:
    """Return the last output of a program as the end of a sentence: `: no such file`, or nothing."""
    lines = [line.strip() for line in clean(words).splitlines() if line.strip()]
    return f": {lines[-1][:_SHOWN].rstrip('.')}" if lines else ""


def expanded(path: str) -> Path:
    """Return a local path from the settings with its tilde expanded. Raises `ToolError`."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ToolError(f"{path} names a home that is not known; write the whole path.") from error


def mount_parts(mount: str) -> tuple[Path, str, bool]:
    """Split the text of a mount into source, target and whether it is read-only.

    Raises `ToolError` with the expected form.
    """
    parts = mount.split(":")
    read_only = len(parts) == 3 and parts[2] == "ro"
    if (
        len(parts) not in (2, 3)
        or (len(parts) == 3 and parts[2] not in ("ro", "rw"))
        or not parts[1].startswith("/")
    ):
        raise ToolError(f"The mount {mount!r} is not understood; write source:target or source:target:ro.")
    return expanded(parts[0]), parts[1], read_only
