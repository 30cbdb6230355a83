"""Sessions that the service of this home works on: an editor attaches to them, as a terminal does."""

from __future__ import annotations

from pathlib import Path

from agent.core.home import Home
from agent.core.store.locks import SessionLock
from app.running_service import running_service


def service_of(session: str) -> Path | None:
    """The socket of the service that works on a session; None where it does not. Blocking."""
    home = Home.locate()
    running = running_service(home.root / "serve")
    if running is None or SessionLock(home.run, session).holder() != running.get("pid"):
        return None
    return home.service_socket
