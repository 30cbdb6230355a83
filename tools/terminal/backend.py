"""The protocol of backends, where commands run: two classes, for this machine and any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tools.services.sandbox import PermitHost
from tools.terminal.pump import ShellEnding, Sink

COLUMNS, ROWS = 120, 40
"""Size of the terminal that a command with `pty` runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """What a command is let do beyond the policy of the sandbox, as a person has allowed."""

    outside: bool = False
    """Whether it runs without the sandbox."""
    network: bool = False
    """Whether it gets the network where that has to be asked for."""
    hosts: frozenset[str] = frozenset()
    """Hosts it may reach where the network is filtered."""
    opens: tuple[Path, ...] = ()
    """Guarded places it may change."""
    lends: bool = False
    """Whether it is lent copies of git's settings."""
    permit: PermitHost | None = None
    """Asks about other hosts it reaches for; None: the session asks."""


NO_LEAVE = Leave()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One shell to start. `mark` is put into the environment of all its descendants, to find them again."""

    cwd: Path
    env: Mapping[str, str]
    state: Path
    """State the shell begins with; the file may be missing."""
    new_state: Path | None
    """Where the shell writes its state when it ends; None = nowhere."""
    command_file: Path
    """Private file with the text of the command, which may be larger than an argument can be."""
    mark: str
    pty: bool = False
    keeps_input: bool = False
    """Whether standard input stays open for `write`; otherwise it is empty."""
    leave: Leave = NO_LEAVE


class ShellChild(Protocol):
    """A running shell with everything it started."""

    @property
    def pid(self) -> int: ...

    def watch(self, sink: Sink) -> None:
        """Begin to read the output. `sink` is called on a thread, in order, with every piece."""

    async def ended(self) -> ShellEnding:
        """Wait until the shell itself has ended and its output is read. Any number of callers may wait."""
        ...

    def has_ended(self) -> bool: ...

    async def write(self, data: bytes) -> None:
        """Type into the shell. Raises `ToolError` when nobody reads."""
        ...

    def close_input(self) -> None: ...

    async def left_behind(self, *, thorough: bool) -> list[str]:
        """Names with ids of processes that are still there, for a person: `sleep (4711)`.

        A quick look sees only what stayed in the shell's process group.
        """
        ...

    async def kill(self) -> None:
        """End the shell and every descendant: politely, and after a moment by force."""


class Backend(Protocol):
    """A place where shells can be started."""

    @property
    def place(self) -> str:
        """What the place is called in messages when it is not this machine; empty = this machine."""
        ...

    async def open(self) -> int:
        """Make the place reachable. Raises `ToolError` naming the cause when it is not.

        Returns a number that changes when what shells had left there is lost.
        """
        ...

    @property
    def shell(self) -> Literal["bash", "sh"]:
        """What runs the commands; a plain `sh` keeps less between calls."""
        ...

    def start(self, launch: Launch) -> ShellChild:
        """Start a shell. Raises `ToolError` naming the cause when it cannot be started."""
        ...

    async def aclose(self) -> None:
        """Kill whatever was started and is still running."""
