"""The locks of a batch's folder: one run at a time, and none before the workers of the last one have ended.

A run that is killed leaves workers that close their sessions; whoever goes on with one meanwhile would
find it in use and ask again what has been answered. Workers inherit their lock, which the system frees
when the last of them has ended.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType

from agent.core.home import PRIVATE_FILE
from agent.errors import ExitCode, HermesError
from tools.kit.files import lock_file

_PATIENCE, _PAUSE = 30.0, 0.05


class FolderBusyError(HermesError):
    """Another run works on the same folder."""

    exit_code = ExitCode.USAGE


class FolderLock:
    """Held until it is closed, and in part until the last worker has ended."""

    def __init__(self, root: Path) -> None:
        """Take the locks of `root`. Blocks while workers end. Raises `FolderBusyError` and `OSError`."""
        self._run = _open(root / "lock")
        self.of_workers = -1
        """The descriptor that workers inherit."""
        try:
            if not _taken(self._run):
                raise FolderBusyError(f"Another run works on {root}; wait for it, or choose another with -o.")
            self.of_workers = _open(root / "workers.lock")
            give_up = time.monotonic() + _PATIENCE
            while not _taken(self.of_workers):
                if time.monotonic() > give_up:
                    raise FolderBusyError(
                        f"Workers of a run that was killed still end in {root}; try again in a minute."
                    )
                time.sleep(_PAUSE)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another run begin as soon as the workers have ended."""
        for descriptor in (self._run, self.of_workers):
            if descriptor >= 0:
                os.close(descriptor)
        self._run = self.of_workers = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)


def _taken(descriptor: int) -> bool:
    return lock_file(descriptor, seconds=0)
