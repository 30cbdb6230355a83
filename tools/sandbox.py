"""The boundary around commands and scripts, as data and protocols; `agent.safety.sandbox` draws it.

A `Policy` says what a child may touch. A `Sandbox` turns an argument list into one that
starts the same program behind that boundary. Nothing here has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

SandboxName = Literal["bubblewrap", "landlock", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one sandbox may use at most; 0 = no limit."""

    processes: int = 1024
    """Processes and threads."""
    files: int = 4096
    """Open files of one process."""
    data: int = 0
    """Bytes of private memory of one process. Programs built with sanitizers reserve terabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a child may touch. All paths are absolute and resolved; of two rules the deeper path counts.

    Everything that is not named can be read and not changed.
    """

    workspace: Path
    tmp: Path
    """A private folder. The child finds it as `/tmp` where that is possible, by `TMPDIR` otherwise."""
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Read-only, also below a hidden folder."""
    hidden: tuple[Path, ...] = ()
    """Cannot be read, and where they do not exist, cannot be made."""
    protected: tuple[Path, ...] = ()
    """Read-only, also below a writable folder."""
    network: bool = False
    terminal: str = ""
    """Path of the terminal the child runs on, or empty."""
    sockets: bool = False
    """Whether Unix sockets are open to it even where the boundary cannot tell them apart."""
    dies_with_parent: bool = True
    """Whether the kernel ends it when the thread that started it ends, and what it left when it ends."""
    limits: Limits = field(default_factory=Limits)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """How to start a program behind the boundary."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables to set."""
    unset: frozenset[str] = frozenset()
    """Variables to take away."""
    fds: tuple[int, ...] = ()
    """Descriptors the child inherits under the same number."""
    terminal: str = ""
    """The path of the child's terminal as the child sees it."""
    started: Callable[[], None] = _nothing
    """Call once the child was started, or could not be: closes `fds`. May be called again."""
    ended: Callable[[], None] = _nothing
    """Call when nothing of the child is left: clears up. May be called again."""


class Sandbox(Protocol):
    """One way to draw the boundary."""

    @property
    def name(self) -> SandboxName: ...

    @property
    def own_tmp(self) -> bool:
        """Whether a child finds the policy's private folder as `/tmp`."""
        ...

    def wrap(self, argv: Sequence[str], policy: Policy) -> Wrapped:
        """`argv` behind the boundary. Raises `ToolError` when it cannot be drawn."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one start needs beyond the usual policy."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    terminal: str = ""
    network: bool = False
    """Whether a person allowed this one the network, where the network is off otherwise."""
    offline: bool = False
    """Whether it gets no network whatever the policy says: it has calls for that, which are asked for."""
    hide: tuple[Path, ...] = ()
    """Files it must not read beyond those that are hidden anyway."""
    sockets: bool = False
    dies_with_parent: bool = False


class Boundary(Protocol):
    """The boundary of one session: a sandbox with the session's policy."""

    @property
    def level(self) -> SandboxName: ...

    @property
    def network(self) -> Literal["on", "ask", "off"]: ...

    def wrap(self, argv: Sequence[str], need: Need) -> Wrapped:
        """`argv` behind the session's boundary. Raises `ToolError` when it cannot be drawn."""
        ...

    def locate(self, path: str) -> str:
        """Where the file that a command inside calls `path` lies on this machine; `path` is absolute.

        A file of the machine's `/tmp` counts where the private folder has none of that name.
        """
        ...

    def called(self, path: Path) -> Path:
        """What a command inside calls `path` of this machine."""
        ...

    def asks_for_network(self, command: str, cwd: Path) -> bool:
        """Whether a person has to be asked whether `command` may have the network."""
        ...

    def private(self) -> tuple[Path, ...]:
        """Files of the workspace that a person is asked about before they are read. Looks at the disk."""
        ...

    def refusal(self, output: str, *, network: bool) -> str:
        """One sentence on what the boundary refused a command that printed `output`, or empty."""
        ...
