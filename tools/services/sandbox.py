"""The boundary around commands and scripts, as data and protocols; `agent.safety.sandbox` sets it up.

A `SandboxPolicy` says what a child may access. A `Sandbox` turns an argument list into one that starts the
same program inside that boundary. Nothing here has an effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tools.services.actions import ReachHost

PermitHost = Callable[[ReachHost], Awaitable[object]]
"""Returns if a host may be reached; raises `DeniedError` otherwise. Runs on the session's event loop."""
SandboxName = Literal["bubblewrap", "landlock", "seatbelt", "none"]
NetworkMode = Literal["on", "filtered", "ask", "off"]
"""What commands may reach: everything; listed hosts, and others by permission; nothing without permission
for the command; nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """The resource limits of one sandbox; 0 = no limit."""

    processes: int = 1024
    """Processes and threads."""
    files: int = 4096
    """Open files of one process."""
    data: int = 0
    """Bytes of private memory of one process. Programs built with sanitizers reserve terabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpace:
    """A network that programs join, given by descriptors of its namespaces in this process."""

    net: int
    user: int
    """The user namespace that the network belongs to; root need not join it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """The access rights of a child. Paths are absolute and resolved; the rule for the deeper path wins.

    All other paths are readable and read-only.
    """

    workspace: Path
    tmp: Path
    """A private folder, mounted as `/tmp` if possible, and set as `TMPDIR` otherwise."""
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Read-only, also below a hidden folder."""
    links: tuple[tuple[Path, Path], ...] = ()
    """Links mounted over files: each with the file. Only if parts can be read-only."""
    hidden: tuple[Path, ...] = ()
    """Paths that cannot be read, or created if missing."""
    protected: tuple[Path, ...] = ()
    """Read-only paths, also below a writable folder."""
    network: bool = False
    space: NetworkSpace | None = None
    """The network that the child joins; None: no network. Only bubblewrap supports this."""
    terminal: str = ""
    """Path of the terminal the child runs on, or empty."""
    sockets: bool = False
    """Whether Unix sockets are allowed even if the boundary cannot distinguish them."""
    dies_with_parent: bool = True
    """Whether the kernel ends the child, and its own children, with the thread that started it."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    waits: bool = False
    """Whether the child is started in advance, as in `Need`."""


class Reserved(Protocol):
    """Names in the workspace that are kept free while something runs in a sandbox."""

    def withdraw(self, folder: Path) -> None:
        """Move what keeps the names free out of the workspace to `folder`, until `restore`.

        Raises `OSError`.
        """
        ...

    def restore(self) -> bool:
        """Undo `withdraw`; return whether everything is as it was before."""
        ...


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """The command to start a program inside the boundary."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables to set."""
    unset: frozenset[str] = frozenset()
    """Variables to remove."""
    fds: tuple[int, ...] = ()
    """Descriptors the child inherits under the same number."""
    terminal: str = ""
    """The path of the child's terminal as the child sees it."""
    started: Callable[[], None] = _nothing
    """Call after the child was started or failed to start: closes `fds`. May be called again."""
    ended: Callable[[], None] = _nothing
    """Call after nothing of the child is left: cleans up. May be called again."""
    shape: object = None
    """What it was made for, to be compared by `Boundary.still_fits`; None if it cannot wait."""
    reserved: tuple[Reserved, ...] = ()


class Sandbox(Protocol):
    """One implementation of the boundary."""

    @property
    def name(self) -> SandboxName: ...

    @property
    def has_mounts(self) -> bool:
        """Return whether a child has private mounts, with the private folder as `/tmp`."""
        ...

    @property
    def can_protect_parts(self) -> bool:
        """Return whether a part of a writable folder can be made read-only."""
        ...

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        """Return `argv` inside the boundary. Raises `ToolError` if it cannot be set up."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The rights that one start needs in addition to the usual policy."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    terminal: str = ""
    network: bool = False
    """Whether the user allowed it to use the network, if that is otherwise off."""
    hosts: frozenset[str] = frozenset()
    """Hosts allowed with it, if the network is filtered."""
    permit: PermitHost | None = None
    """Asks about other hosts, in the name of the child's agent; None: the session asks."""
    offline: bool = False
    """Whether it gets only a filtered network, because it can make requests by tool calls."""
    counts: bool = True
    """Whether it counts as working from the start; a waiting child does so after `Boundary.mark_working`."""
    hide: tuple[Path, ...] = ()
    """Further files it must not read."""
    sockets: bool = False
    guarded_paths: tuple[Path, ...] = ()
    """Guarded paths that it may change; a folder includes its content."""
    needs_git_copies: bool = False
    """Whether it gets copies of git's settings to write, which are judged later."""
    dies_with_parent: bool = False
    waits: bool = False
    """Whether it is started in advance, so that `Boundary.still_fits` can check it later."""


class Boundary(Protocol):
    """The boundary of one session: a sandbox with the session's policy."""

    @property
    def level(self) -> SandboxName: ...

    @property
    def network(self) -> NetworkMode: ...

    @property
    def is_ready(self) -> bool:
        """Return whether `prepare` would return at once."""
        ...

    def prepare(self) -> None:
        """Do the slow work that must precede the first start. Blocks. Raises `ToolError`."""
        ...

    def recheck(self) -> None:
        """Make the next `prepare` check again, because a program outside may have changed its conditions."""
        ...

    def withdraw(self, wrapped: Wrapped) -> None:
        """Remove from the workspace what a child does not need while it waits for work. Raises `OSError`."""
        ...

    def restore(self, wrapped: Wrapped) -> bool:
        """Restore for a waiting child what `withdraw` removed; return whether its boundary is complete."""
        ...

    def still_fits(self, wrapped: Wrapped, need: Need, pid: int) -> bool:
        """Undo `withdraw` for the waiting child, the process `pid`; return whether a boundary made for `need`
        now would give the same access. Reads the disk. Raises `OSError` and `ToolError`.
        """
        ...

    def mark_working(
        self, permit: PermitHost | None = None, hosts: frozenset[str] = frozenset()
    ) -> Callable[[], None]:
        """Count a waiting process as working; if the network is filtered, allow it `hosts`, and others that
        `permit` allows. The returned function reverts this.
        """
        ...

    def wrap(self, argv: Sequence[str], need: Need) -> Wrapped:
        """Return `argv` inside the session's boundary. Raises `ToolError` if it cannot be set up."""
        ...

    def locate(self, path: str) -> str:
        """Return the real path of a file that a command in the sandbox calls `path` (absolute).

        A file in the real `/tmp` is meant if the private folder has none with that name.
        """
        ...

    def path_in_sandbox(self, path: Path) -> Path:
        """Return the path under which a command in the sandbox sees `path`."""
        ...

    def asks_for_network(self, command: str, cwd: Path) -> bool:
        """Return whether the user must be asked about network access for `command`."""
        ...

    def guarded_paths(self, command: str, cwd: Path) -> tuple[Path, ...]:
        """Return the guarded paths that `command` changes according to its text.

        The user is asked about them before or after it runs.
        """
        ...

    def needs_git_copies(self, command: str, cwd: Path) -> bool:
        """Return whether `command` may change git settings, and therefore gets copies of them."""
        ...

    def hosts_named(self, command: str, cwd: Path) -> frozenset[str]:
        """Return the hosts that `command` names, if the network is filtered.

        Permission for the command includes them.
        """
        ...

    def private_files(self) -> tuple[Path, ...]:
        """Return the workspace files that may be read only with permission. Reads the disk."""
        ...

    def guarded_refusal(self, output: str) -> str:
        """Return a sentence on a guarded path that a program could not change, by its output; or empty."""
        ...

    def refusal(self, output: str, *, network: bool, command: str = "", failed: bool = True) -> str:
        """Return a note on what the boundary refused or hid from a command with this `output`, or empty.

        `failed` tells whether its exit code was not 0. Reads the disk.
        """
        ...

    def withheld_clause(self, note: str) -> str:
        """Return what a note of `refusal` says was withheld, as a clause for a question; or empty."""
        ...

    def hosts_refused(self, since: float) -> str:
        """Return a text on the hosts refused since `since`, a time of `time.monotonic`; or empty."""
        ...
