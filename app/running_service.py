"""The service that runs in this home, if any: a locked file, and a file with its address next to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE
from agent.errors import ConfigError
from tools.kit.files import lock_file, open_lock


def running_service(folder: Path) -> dict[str, Any] | None:
    """Return address and process of the service that runs in this home; None if there is none."""
    try:
        with (folder / "service.lock").open("rb") as lock:
            if lock_file(lock.fileno(), shared=True, seconds=0):
                return None
        found = json.loads((folder / "service.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("url"), str) else None


class ServicePlace:
    """A context manager with a lock that admits one service per home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = -1

    def __enter__(self) -> ServicePlace:
        """Take the lock. Raises `ConfigError`, which names the service that holds it."""
        lock = open_lock(self._folder / "service.lock")
        if not lock_file(lock, seconds=0):
            os.close(lock)
            running = running_service(self._folder)
            where = f" at {running['url']}" if running else ""
            raise ConfigError(f"A service of this home runs already{where}; end it there first.")
        self._lock = lock
        return self

    def note(self, **data: Any) -> None:
        """Write the address and other data with which clients reach the service."""
        unfinished = self._folder / f".service.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(unfinished, flags, PRIVATE_FILE), "w", encoding="utf-8") as file:
            json.dump(data, file)
        unfinished.replace(self._folder / "service.json")

    def __exit__(self, *_: object) -> None:
        (self._folder / "service.json").unlink(missing_ok=True)
        os.close(self._lock)
