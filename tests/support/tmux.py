"""A tmux server of its own with one program in it: keys in, what a person would see out."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.terminal import Terminal
from tests.support.waiting import PATIENCE

PROGRAM = shutil.which("tmux")


class Tmux:
    """Runs `command` in a pane for the length of a `with` block. The pane stays when the program ends."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        folder: Path,
        size: tuple[int, int] = (100, 30),
    ) -> None:
        self._socket = folder / "tmux"
        self._command = shlex.join(
            ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *command]
        )
        self._cwd = cwd
        self._size = size

    def __enter__(self) -> Self:
        columns, rows = self._size
        self._tell("new-session", "-d", "-x", str(columns), "-y", str(rows), "sleep 1000")
        self._tell("set-option", "-g", "status", "off")
        self._tell("set-option", "-g", "remain-on-exit", "on")
        # The line about the end would scroll the last words of a program off an empty screen.
        self._tell("set-option", "-g", "remain-on-exit-format", "")
        self._tell("set-option", "-g", "default-terminal", "tmux-256color")
        self._tell("respawn-pane", "-k", "-c", str(self._cwd), self._command)
        return self

    def __exit__(self, *_: object) -> None:
        self._tell("kill-server", check=False)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: `Enter`, `Escape`, `C-s`."""
        self._tell("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text as it stands."""
        self._tell("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        self._tell("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        """What is on the screen, without colours."""
        return self._tell("capture-pane", "-p")

    def until(self, wanted: str | Callable[[str], bool], limit: float = PATIENCE) -> str:
        """Wait until something is on the screen; the screen. Raises `TimeoutError`."""
        end = time.monotonic() + limit
        while True:
            screen = self.screen()
            if wanted(screen) if callable(wanted) else wanted in screen:
                return screen
            if time.monotonic() > end:
                raise TimeoutError(f"{wanted!r} did not come:\n{screen}")
            time.sleep(0.05)

    def attached(self) -> Terminal:
        """A client on a terminal of its own, to be used as a `with` block; its end detaches it."""
        env = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"}
        return Terminal([*self._program, "attach-session"], env, self._cwd, self._size)

    def clients(self) -> int:
        """How many terminals are attached."""
        return len(self._tell("list-clients").splitlines())

    @property
    def _program(self) -> list[str]:
        assert PROGRAM is not None
        return [PROGRAM, "-S", str(self._socket), "-f", os.devnull]

    def _tell(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._program, *arguments],
            env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "TERM": "xterm-256color"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"tmux {arguments[0]}: {done.stderr.strip()}")
        return done.stdout
