"""The lease of whoever runs what is due: a lock of the kernel, free the moment its holder ends."""

from __future__ import annotations

from pathlib import Path

from agent.core.store.locks import SessionLock

RUNNER = "runner"


def lease(folder: Path) -> SessionLock:
    """The lock that one runner of a home holds."""
    return SessionLock(folder, RUNNER)
