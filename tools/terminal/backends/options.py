"""Options of each backend, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Pull = Literal["missing", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerOptions:
    image: str
    program: str = "docker"
    """`docker`, or a program with the same arguments, such as `podman`."""
    pull: Pull = "missing"
    network: bool = True
    cpus: float = 0
    """Processors it may use; 0 = all."""
    memory: str = ""
    """As docker writes it, such as `2g`; empty = no limit."""
    processes: int = 1024
    """Processes and threads; 0 = no limit."""
    mounts: tuple[str, ...] = ()
    """`source:target`, or `source:target:ro`."""
    user: str = ""
    """The user as whom commands run; empty for the user who runs Hermes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingularityOptions:
    image: str
    program: str = ""
    """Empty = `apptainer` or `singularity`, whichever there is."""
    mounts: tuple[str, ...] = ()
    network: bool = True
    gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    host: str
    user: str = ""
    port: int = 0
    """The port; 0 = the client's configuration."""
    key: str = ""
    """Path of a private key; empty = the client's choice."""
    known_hosts: str = ""
    """File with host keys besides the usual ones."""
    connect_timeout: int = 10
    """Seconds."""
    program: str = "ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalOptions:
    image: str
    app: str = "hermes"
    cpus: float = 0
    memory: int = 0
    """Mebibytes; 0 = the provider's default."""
    lifetime: int = 3600
    """Seconds after which the provider ends the sandbox in any case."""
    network: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DaytonaOptions:
    image: str = ""
    """Empty = the provider's default."""
    lifetime: int = 60
    """Minutes without activity after which the provider stops the sandbox."""


Options = DockerOptions | SingularityOptions | SshOptions | ModalOptions | DaytonaOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """The options of the machine or container that runs the commands instead of this machine."""

    kind: Literal["docker", "singularity", "ssh", "modal", "daytona"]
    options: Options
    workdir: str = ""
    """First folder; empty = the workspace if mounted, else the home there."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of commands there."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment of Hermes, from which client programs get what they need."""

    shared: bool = False
    """Whether the settings say that the workspace is there under the same path."""

    @property
    def shares_files(self) -> bool:
        """Return whether the workspace exists there under the same path."""
        return self.shared or self.kind in ("docker", "singularity")

    @property
    def name(self) -> str:
        """Return the short name of the machine or container."""
        return self.options.host if isinstance(self.options, SshOptions) else self.kind

    @property
    def title(self) -> str:
        """Return kind and name, such as `ssh build.example.org`."""
        own = self.options
        return f"ssh {own.host}" if isinstance(own, SshOptions) else self.kind

    def start(self, workspace: Path) -> str:
        """Return the folder for the first command."""
        return self.workdir or (str(workspace) if self.shares_files else "~")
