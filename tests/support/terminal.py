"""A real pseudo-terminal with a program in it: keys in, painted bytes out."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.support.waiting import PATIENCE


class Terminal:
    """Runs a program on a terminal of its own for the length of a `with` block."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str], cwd: Path, size: tuple[int, int] = (120, 40)
    ) -> None:
        self._command = list(command)
        self._env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._cwd = cwd
        self._size = size
        self.painted = bytearray()
        """Everything the program has written so far."""
        self.settings: list[object] = []
        """How the terminal was set before the program began."""

    def __enter__(self) -> Self:
        self.fd, inner = os.openpty()
        self.settings = termios.tcgetattr(self.fd)
        self.resize(*self._size)
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self._command,
            env=self._env,
            cwd=self._cwd,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            close_fds=True,
        )
        os.close(inner)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def read(self, seconds: float) -> bytes:
        """What is painted within so many seconds, or at once when something is there."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return b""
        try:
            piece = os.read(self.fd, 1 << 16)
        except OSError:
            return b""
        self.painted += piece
        return piece

    def drain(self) -> int:
        """Read until the program ends; its exit code (negative: the signal that ended it)."""
        while True:
            try:
                piece = os.read(self.fd, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            self.painted += piece
        return self.process.wait()

    def until(self, wanted: bytes | Callable[[], bool], limit: float = PATIENCE, since: int = 0) -> float:
        """Read until something is painted (after offset `since`); seconds it took. Raises `TimeoutError`."""
        began = time.monotonic()
        while True:
            seen = wanted() if callable(wanted) else self.painted.find(wanted, since) >= 0
            if seen:
                return time.monotonic() - began
            left = limit - (time.monotonic() - began)
            if left <= 0:
                raise TimeoutError(f"{wanted!r} was not painted; last: {bytes(self.painted[-400:])!r}")
            self.read(left)
