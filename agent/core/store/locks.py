"""Locks that let only one process use a session: only the holder may add nodes to it and repair it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from agent.core.home import private_folder
from agent.errors import ConfigError, StoreError
from tools.kit.files import is_open_at, lock_file, open_lock


class SessionLock:
    """A lock file in the run folder; the system releases the lock however the process ends."""

    def __init__(self, folder: Path, session: str) -> None:
        if not session or "/" in session or "\0" in session:
            raise StoreError("A session id holds neither slashes nor NUL bytes.")
        self.path = folder / f"session-{session}.lock"
        self._file: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock without waiting; return False if another process or lock object holds it.

        Raises `StoreError` if the folder or the file cannot be used.
        """
        if self._file is not None:
            return True
        try:
            private_folder(self.path.parent)
            while True:
                file = open_lock(self.path)
                if not lock_file(file, seconds=0):
                    os.close(file)
                    return False
                if is_open_at(file, self.path):
                    break
                os.close(file)  # the last holder removed the file in between
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        except ConfigError as error:
            raise StoreError(str(error)) from error
        except OSError as error:
            raise self._unusable(error) from error
        self._file = file
        return True

    def release(self) -> None:
        """Remove the file and release the lock. May be called again."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def is_held(self) -> bool:
        """Return whether a process holds the lock; checks that run at the same time do not count.

        Raises `StoreError` if the file cannot be used.
        """
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # may be a pipe
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable(error) from error
        try:
            return not lock_file(file, shared=True, seconds=0)
        finally:
            os.close(file)

    def holder(self) -> int | None:
        """Return the id of the process that last acquired the lock; None if unknown."""
        try:
            return int(self.path.read_text())
        except (OSError, ValueError):
            return None

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(f"Cannot use the lock {self.path}: {error.strerror or error}; free it.")

    def __enter__(self) -> SessionLock:
        if not self.acquire():
            holder = self.holder()
            by = f"process {holder}" if holder else "another process"
            raise StoreError(f"The session is in use by {by}; close it there first.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def locked_sessions(folder: Path) -> list[tuple[str, float]]:
    """Return (id, time of opening in seconds since the epoch) of sessions that are open, oldest first."""
    found: list[tuple[str, float]] = []
    for path in folder.glob("session-*.lock"):
        id = path.name.removeprefix("session-").removesuffix(".lock")
        try:
            if SessionLock(folder, id).is_held():
                found.append((id, path.stat().st_mtime))
        except (OSError, StoreError):
            continue  # closed meanwhile, or not a lock of Hermes
    return sorted(found, key=lambda each: each[1])
