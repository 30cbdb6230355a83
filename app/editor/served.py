"""Finds the service that has a session open, so that an editor can attach to it."""

from __future__ import annotations

from pathlib import Path

from agent.core.home import Home
from agent.core.store.locks import SessionLock
from app.running_service import running_service


def service_of(session: str) -> Path | None:
    """Return the path of the service's socket if the service has a session open; else None. Blocking."""
    home = Home.locate()
    running = running_service(home.root / "serve")
    if running is None or SessionLock(home.run, session).holder() != running.get("pid"):
        return None
    return home.service_socket
