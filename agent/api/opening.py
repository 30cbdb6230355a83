"""Opening of a session, new or resumed, for a surface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.events import Event
    from agent.session.options import Options

Listener = Callable[["Event"], None]
READ_FIRST = (
    *("agent.session.runtime", "agent.model.demo", "agent.model.formats.chat", "agent.workspace.watcher"),
    *("agent.workspace.change_reporter", "agent.workspace.isolated_copies.copy_folders"),
    *("agent.workspace.checkpoints.meanwhile", "agent.workspace.checkpoints.root_identity"),
    *("watchdog.observers", "watchdog.events"),
)
"""Modules needed to open a session in this process, which a surface may import in the background."""


async def open_session(
    options: Options,
    *listeners: Listener,
    environ: Mapping[str, str] | None = None,
    process: bool = False,
    service: Path | None = None,
) -> SessionClient:
    """Open a session; `listeners` receive every event of it, from the first on.

    With `process`, the engine works in a separate process. With `service`, the path of a service's socket,
    the engine belongs to the service and continues when this client leaves. Otherwise it works in this
    process. `environ` replaces the environment from which settings are read. Raises `HermesError` if there is
    no model, no usable store, or no such session.
    """
    if not process and service is None:
        return await open_here(options, *listeners, environ=os.environ if environ is None else environ)
    from agent.api.remote import RemoteSession

    return await RemoteSession.open(options, listeners, environ, service)


async def open_here(
    options: Options, *listeners: Listener, environ: Mapping[str, str] = os.environ
) -> SessionClient:
    """Open a session whose engine works in this process. Raises `HermesError`."""
    from agent.automation.unattended.session_automation import AUTOMATION
    from agent.session.runtime import open_engine

    return await open_engine(options, *listeners, environ=environ, automation=AUTOMATION)
