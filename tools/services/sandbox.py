"""The boundary around commands and scripts, as data and protocols; `agent.safety.sandbox` draws it.

A `SandboxPolicy` says what a child may touch. A `Sandbox` turns an argument list into one that
starts the same program behind that boundary. Nothing here has an effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tools.services.actions import ReachHost

PermitHost = Callable[[ReachHost], Awaitable[object]]
"""Returns if a host may be reached; raises `DeniedError` otherwise. For the session's loop."""
SandboxName = Literal["bubblewrap", "landlock", "seatbelt", "none"]
NetworkMode = Literal["on", "filtered", "ask", "off"]
"""What commands reach: everything; listed hosts, others when a person allows them; nothing unless a person
allows it for a command; nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What one sandbox may use at most; 0 = no limit."""

    processes: int = 1024
    """Processes and threads."""
    files: int = 4096
    """Open files of one process."""
    data: int = 0
    """Bytes of private memory of one process. Programs built with sanitizers reserve terabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpace:
    """A network that programs join, as descriptors of its namespaces in our own process."""

    net: int
    user: int
    """Of the users it belongs to; root needs not join that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """What a child may touch. All paths are absolute and resolved; of two rules the deeper path counts.

    Everything that is not named can be read and not changed.
    """

    workspace: Path
    tmp: Path
    """A private folder. The child finds it as `/tmp` where that is possible, by `TMPDIR` otherwise."""
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Read-only, also below a hidden folder."""
    links: tuple[tuple[Path, Path], ...] = ()
    """Links that lie over files: each with the file. Only where parts can be read-only."""
    hidden: tuple[Path, ...] = ()
    """Cannot be read, and where they do not exist, cannot be made."""
    protected: tuple[Path, ...] = ()
    """Read-only, also below a writable folder."""
    network: bool = False
    space: NetworkSpace | None = None
    """The network it is in instead of none at all. Only bubblewrap can do that."""
    terminal: str = ""
    """Path of the terminal the child runs on, or empty."""
    sockets: bool = False
    """Whether Unix sockets are open to it even where the boundary cannot tell them apart."""
    dies_with_parent: bool = True
    """Whether the kernel ends it when the thread that started it ends, and what it left when it ends."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)


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
    def has_mounts(self) -> bool:
        """Whether a child has a view of its own, with the private folder as `/tmp`."""
        ...

    @property
    def lays_read_only(self) -> bool:
        """Whether a part of what is writable can be read-only."""
        ...

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
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
    hosts: frozenset[str] = frozenset()
    """Hosts that were allowed with it, where the network is filtered."""
    permit: PermitHost | None = None
    """Asks about other hosts it reaches for, in the name of its agent; None: the session does."""
    offline: bool = False
    """Whether it gets no network but a filtered one: it has calls for that, which are asked for."""
    counts: bool = True
    """Whether it is at work from the start; what only waits is counted by `Boundary.at_work`."""
    hide: tuple[Path, ...] = ()
    """Files it must not read beyond those that are hidden anyway."""
    sockets: bool = False
    opens: tuple[Path, ...] = ()
    """Guarded places it may change; a folder stands for all below it."""
    lends: bool = False
    """Whether it gets copies of git's settings to write, which are judged later."""
    dies_with_parent: bool = False


class Boundary(Protocol):
    """The boundary of one session: a sandbox with the session's policy."""

    @property
    def level(self) -> SandboxName: ...

    @property
    def network(self) -> NetworkMode: ...

    @property
    def is_ready(self) -> bool:
        """Whether `prepare` has nothing left to do."""
        ...

    def prepare(self) -> None:
        """Do what takes a while before the first start. Blocks. Raises `ToolError`."""
        ...

    def look_again(self) -> None:
        """Have `prepare` look again: a program outside may have changed what it shows."""
        ...

    def at_work(self, permit: PermitHost | None = None) -> Callable[[], None]:
        """Something that was started with `counts=False` begins to work; call the result when it is over."""
        ...

    def wrap(self, argv: Sequence[str], need: Need) -> Wrapped:
        """`argv` behind the session's boundary. Raises `ToolError` when it cannot be drawn."""
        ...

    def locate(self, path: str) -> str:
        """Where the file that a command inside calls `path` lies on this machine; `path` is absolute.

        A file of the machine's `/tmp` counts where the private folder has none of that name.
        """
        ...

    def path_in_sandbox(self, path: Path) -> Path:
        """What a command inside calls `path` of this machine."""
        ...

    def asks_for_network(self, command: str, cwd: Path) -> bool:
        """Whether a person must be asked whether `command` may have the network."""
        ...

    def opens(self, command: str, cwd: Path) -> tuple[Path, ...]:
        """Guarded places that `command` changes by its text: a person is asked before or after it."""
        ...

    def lends(self, command: str, cwd: Path) -> bool:
        """Whether `command` may change settings of git, and is lent copies of them."""
        ...

    def hosts_named(self, command: str, cwd: Path) -> frozenset[str]:
        """Hosts that `command` names, where the network is filtered: a yes to it is a yes to them."""
        ...

    def private(self) -> tuple[Path, ...]:
        """Files of the workspace that a person is asked about before they are read. Looks at the disk."""
        ...

    def guarded_refusal(self, output: str) -> str:
        """One sentence on a guarded place that a program could not change, by its output, or empty."""
        ...

    def refusal(self, output: str, *, network: bool, command: str = "", failed: bool = True) -> str:
        """A note on what the boundary refused or hid from a command that printed `output`, or empty.

        `failed` tells whether it ended with another code than 0. Looks at the disk.
        """
        ...

    def kept_back(self, note: str) -> str:
        """What a note of `refusal` says was hidden or closed, as a clause for a question, or empty."""
        ...

    def hosts_refused(self, since: float) -> str:
        """What to say about hosts that were not let through since a moment of `time.monotonic`, or empty."""
        ...
