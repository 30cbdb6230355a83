"""Private folders for temporary files, and the removal of those left by killed processes."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from tools.kit.files import create_file, lock_file

SHORT = "/tmp"
"""A folder for temporary files whose path is short on every system."""
_NAMES = "hermes-"
_UNFINISHED = "hermes-make-"
"""The name prefix of a folder without its lock: one that is being made or removed."""
_LOCK = "owner"
"""The lock held while the owner lives. A process id is not enough, because containers count separately."""
_UNOWNED = 3600.0
"""Seconds after which an unfinished folder counts as abandoned."""


class PrivateFolder:
    """A folder (0700) for temporary files, removed at the end of its context or with `remove`.

    `use` becomes a part of its name. Raises `OSError` if none can be made. If this process is killed,
    another one removes the folder with `sweep`.
    """

    def __init__(self, use: str, root: str | None = None) -> None:
        made = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=root))
        self._lock = create_file(made / _LOCK)
        lock_file(self._lock)
        # Only now does it get the name by which sweeps find it: none meets it without its lock.
        self.path = made.with_name(f"{_NAMES}{use}-{made.name.removeprefix(_UNFINISHED)}")
        made.rename(self.path)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and its content. May be called again."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


@functools.cache
def sweep_once() -> None:
    """Remove the folders left by killed processes, in threads and once in this process."""
    for root in {tempfile.gettempdir(), SHORT}:
        threading.Thread(target=sweep, args=(Path(root),), name="sweep", daemon=True).start()


def sweep(root: Path) -> None:
    """Remove the folders below `root` that killed processes of Hermes left. Meant for a thread."""
    with suppress(OSError):
        for folder in root.glob(_NAMES + "*"):
            with suppress(OSError):
                if _is_abandoned(folder):
                    _remove(folder)


def _is_abandoned(folder: Path) -> bool:
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        return False
    if folder.name.startswith(_UNFINISHED):
        return time.time() - about.st_mtime > _UNOWNED
    # Other folders of such names, without this file, are no concern of ours.
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return lock_file(lock, seconds=0)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    # If this is cut off after the lock is gone, sweeps know the rest by the name.
    with suppress(OSError):
        folder = folder.rename(folder.with_name(_UNFINISHED + folder.name.rsplit("-", 1)[1]))
    shutil.rmtree(folder, ignore_errors=True)
