"""Opening a backend from its options, without connecting yet."""

from __future__ import annotations

from pathlib import Path

from tools.terminal.backends.channel import Connector
from tools.terminal.backends.containers import DockerConnector, SingularityConnector
from tools.terminal.backends.options import (
    BackendOptions,
    DockerOptions,
    ModalOptions,
    SingularityOptions,
    SshOptions,
)
from tools.terminal.backends.remote_backend import RemoteBackend
from tools.terminal.backends.ssh import SshConnector


def open_backend(options: BackendOptions, workspace: Path) -> RemoteBackend:
    """Return the backend for tasks in `workspace`. Raises `ToolError` for invalid options."""
    return RemoteBackend(_reach(options, workspace))


def _reach(options: BackendOptions, workspace: Path) -> Connector:
    own = options.options
    if isinstance(own, DockerOptions):
        return DockerConnector(own, workspace, options.environ)
    if isinstance(own, SingularityOptions):
        return SingularityConnector(own, workspace, options.environ)
    if isinstance(own, SshOptions):
        return SshConnector(own, options.environ)
    if isinstance(own, ModalOptions):
        from tools.terminal.backends.cloud import ModalConnector

        return ModalConnector(own)
    from tools.terminal.backends.cloud import DaytonaConnector

    return DaytonaConnector(own)
