"""Waiting for a lock of the system, which is let go when its holder ends, however it ends."""

from __future__ import annotations

from pathlib import Path

from agent.errors import StoreError
from tools.kit.files import lock_file

WAIT_SECONDS = 20.0


def lock(descriptor: int, path: Path, *, exclusive: bool, seconds: float = WAIT_SECONDS) -> None:
    """Lock an open file. Raises `StoreError` when others keep it longer than `seconds`, and `OSError`."""
    if not lock_file(descriptor, shared=not exclusive, seconds=seconds):
        raise BusyError(f"Another process keeps {path} locked; wait for it or end it, and try again.")


class BusyError(StoreError):
    """Somebody else works with the store at the moment."""
