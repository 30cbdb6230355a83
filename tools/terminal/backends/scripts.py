"""The shell text sent to the remote side. All variable parts of it are quoted here, and nowhere else."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.terminal.backend import Launch
from tools.terminal.local import START

_FOLDER = Path(__file__).parent
# One line without quotes, backslashes and exclamation marks: the login shell of a remote host reads
# it in single quotes, and that may be any shell. The token comes in two halves, so that a terminal
# that echoes this line does not print a marker.
_BOOT = '[ -t 0 ] && stty raw -echo; printf %s%sr%s%s. $1 $2 $1 $2; eval "$(head -c $3)"'
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_ONLY = frozenset({"PPID", "UID", "EUID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "HERMES_CALL"})


@dataclass(frozen=True, slots=True)
class RemoteScript:
    """A script and the fixed short command that requests and runs it."""

    token: bytes
    text: bytes

    def command(self) -> list[str]:
        """Return the command that prints the marker `r`, reads the script, and replaces itself with it.

        Its arguments contain only numbers, because other users of the remote side can see them.
        """
        token = self.token.decode()
        half = len(token) // 2
        return ["sh", "-c", _BOOT, "hermes", token[:half], token[half:], str(len(self.text))]


def call_script(launch: Launch, command: str, *, folder: str, shell: str, mark: str) -> RemoteScript:
    """Return the script for one call. `folder` and `shell` are remote paths."""
    token = _token()
    name = "bash" if shell.endswith("/bash") else "sh"
    parameters = (
        token,
        folder,
        launch.mark,
        os.fspath(launch.cwd),
        launch.state.parent.name,
        "1" if launch.new_state is not None else "",
        "pty" if launch.pty else "pipe" if launch.keeps_input else "none",
        shell,
        command,
        mark,
        START[name],
    )
    head = f"hermes_env() {{ :;{_exports(launch.env)}\n}}\nset -- {' '.join(map(quoted, parameters))}\n"
    return RemoteScript(token.encode(), os.fsencode(head) + _file("call.sh"))


def anchor_script(owner: str) -> RemoteScript:
    """Return the script of the anchor, the one program that runs all the time."""
    token = _token()
    prologues = (_prologue("bash"), _prologue("sh"))
    head = f"set -- {' '.join(map(quoted, (token, owner, *prologues)))}\n"
    return RemoteScript(token.encode(), os.fsencode(head) + _file("anchor.sh"))


def quoted(text: str) -> str:
    """Return `text` as one word of any POSIX shell. Raises `ValueError` for a NUL, which no shell accepts."""
    if "\0" in text:
        raise ValueError("A shell takes no NUL character.")
    return "'" + text.replace("'", "'\\''") + "'"


def _exports(env: Mapping[str, str]) -> str:
    return "".join(
        f"\nexport {name}={quoted(value)}"
        for name, value in env.items()
        if _NAME.fullmatch(name) and name not in _READ_ONLY and "\0" not in value
    )


def _token() -> str:
    return secrets.token_hex(16)


@cache
def _file(name: str) -> bytes:
    # Read by `$(…)`, which takes line ends off; the shell needs none there.
    return (_FOLDER / name).read_bytes().rstrip()


@cache
def _prologue(name: str) -> str:
    return (_FOLDER.parent / f"prologue.{name}").read_text(encoding="utf-8")
