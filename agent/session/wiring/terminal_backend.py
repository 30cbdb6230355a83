"""The backend that runs commands on another machine or in a container, created from settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from tools.terminal.backends.options import (
    BackendOptions,
    DaytonaOptions,
    DockerOptions,
    ModalOptions,
    Options,
    SingularityOptions,
    SshOptions,
)

if TYPE_CHECKING:
    from agent.core.config.schema import SettingsSection, TerminalSettings

_KINDS = {
    "docker": DockerOptions,
    "ssh": SshOptions,
    "singularity": SingularityOptions,
    "modal": ModalOptions,
    "daytona": DaytonaOptions,
}


def backend_options(settings: TerminalSettings, environ: Mapping[str, str]) -> BackendOptions | None:
    """Return the configured backend; None for this machine. Raises `ConfigError` if a setting is missing."""
    kind = settings.backend
    if kind == "local":
        return None
    if kind == "ssh" and not settings.ssh.host:
        raise ConfigError("terminal.backend is ssh and terminal.ssh.host is empty; set it to the host.")
    return BackendOptions(
        kind=kind,
        options=_options(kind, getattr(settings, kind)),
        workdir=settings.workdir,
        env=dict(settings.env),
        environ=dict(environ),
        shared=kind == "ssh" and settings.ssh.shared,
    )


def _options(kind: str, section: SettingsSection) -> Options:
    given: dict[str, Any] = section.model_dump(exclude={"shared"})
    return _KINDS[kind](
        **{name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
    )
