"""From options to a backend. Nothing is reached yet."""

from __future__ import annotations

from pathlib import Path

from tools.terminal.backends.docker import DockerReach
from tools.terminal.backends.far import FarBackend
from tools.terminal.backends.options import (
    BackendOptions,
    DockerOptions,
    ModalOptions,
    SingularityOptions,
    SshOptions,
)
from tools.terminal.backends.reach import Reach
from tools.terminal.backends.singularity import SingularityReach
from tools.terminal.backends.ssh import SshReach


def open_backend(options: BackendOptions, workspace: Path) -> FarBackend:
    """The backend for tasks in `workspace`. Raises `ToolError` for options that make no sense."""
    return FarBackend(_reach(options, workspace))


def _reach(options: BackendOptions, workspace: Path) -> Reach:
    own = options.options
    if isinstance(own, DockerOptions):
        return DockerReach(own, workspace, options.environ)
    if isinstance(own, SingularityOptions):
        return SingularityReach(own, workspace, options.environ)
    if isinstance(own, SshOptions):
        return SshReach(own, options.environ)
    if isinstance(own, ModalOptions):
        from tools.terminal.backends.modal import ModalReach

        return ModalReach(own)
    from tools.terminal.backends.daytona import DaytonaReach

    return DaytonaReach(own)
