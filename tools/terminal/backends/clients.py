"""Common parts of client programs: their environment, short calls, and how failures read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.results import ToolError
from tools.terminal.backends.channel import ClientChannel
from tools.text.safe_text import clean

_USUAL = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"}
)
_SHORT = 30.0
"""Seconds for a call that only manages something."""
_SHOWN = 300


class Client:
    """A client program of this machine. `own` are the variables it reads itself; it gets no others."""

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
        """Where the program is. Raises `ToolError` when it is missing."""
        found = shutil.which(self.program, path=self.env["PATH"])
        if found is None:
            raise ToolError(
                f"The program {self.program} is not installed, so commands cannot run there; "
                "install it or set terminal.backend to local."
            )
        return str(Path(found).absolute())

    def channel(self, arguments: Sequence[str], *, pty: bool = False) -> ClientChannel:
        """Start the program for a two-way stream. Raises `ToolError`."""
        path = self.path()
        try:
            return ClientChannel([path, *arguments], self.env, pty=pty)
        except OSError as error:
            raise ToolError(f"{path} could not be started: {error.strerror or error}.") from error

    def run(self, arguments: Sequence[str], *, patience: float = _SHORT) -> tuple[int, str]:
        """Exit code and words of a short call. Raises `ToolError` when it does not end in time."""
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
    """What a program said last, as the end of a sentence: `: no such file` or nothing."""
    lines = [line.strip() for line in clean(words).splitlines() if line.strip()]
    return f": {lines[-1][:_SHOWN].rstrip('.')}" if lines else ""


def expanded(path: str) -> Path:
    """A path of this machine from the settings, without its tilde."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ToolError(f"{path} names a home that is not known; write the whole path.") from error


def mount_parts(mount: str) -> tuple[Path, str, bool]:
    """Source, target and whether it is read-only. Raises `ToolError` that shows the form."""
    parts = mount.split(":")
    read_only = len(parts) == 3 and parts[2] == "ro"
    if (
        len(parts) not in (2, 3)
        or (len(parts) == 3 and parts[2] not in ("ro", "rw"))
        or not parts[1].startswith("/")
    ):
        raise ToolError(f"The mount {mount!r} is not understood; write source:target or source:target:ro.")
    return expanded(parts[0]), parts[1], read_only
