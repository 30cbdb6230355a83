"""The private folder of a child: made, owned, cleared up, also after whoever made it was killed."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path

from tools.kit.files import create_file, lock_file

SOCKET = "rpc.sock"

_PREFIX = "hermes-code-"
_UNFINISHED = "hermes-make-"
"""Start of the name of a folder whose lock is not held yet; as long as `_PREFIX`."""
_LOCK = "owner"
"""Locked as long as the owner lives. A process id would not do: other containers count their own."""
_PATH_LIMIT = 100
"""Bytes of a socket's path that every system takes."""
_UNOWNED = 3600.0
"""Seconds after which a folder without a lock is nobody's."""
_SHORT = "/tmp"


class PrivateFolder:
    """A folder (0700) for a socket. Raises OSError where none can be made."""

    def __init__(self) -> None:
        _sweep_once()
        made = _made()
        self._lock = create_file(made / _LOCK)
        lock_file(self._lock)
        # Only now does it get the name by which sweeps find it: none meets it without its lock.
        self.path = made.with_name(_PREFIX + made.name.removeprefix(_UNFINISHED))
        made.rename(self.path)

    def remove(self) -> None:
        """Remove it and what it holds. May be called again."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def sweep(root: Path) -> None:
    """Remove the folders below `root` that killed processes of ours have left. Meant for a thread."""
    with contextlib.suppress(OSError):
        for folder in [*root.glob(_PREFIX + "*"), *root.glob(_UNFINISHED + "*")]:
            with contextlib.suppress(OSError):
                if _is_abandoned(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        return False
    if folder.name.startswith(_UNFINISHED):
        return time.time() - about.st_mtime > _UNOWNED
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - about.st_mtime > _UNOWNED
    try:
        return lock_file(lock, seconds=0)
    finally:
        os.close(lock)


@functools.cache
def _sweep_once() -> None:
    for root in {tempfile.gettempdir(), _SHORT}:
        threading.Thread(target=sweep, args=(Path(root),), name="sweep", daemon=True).start()


def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED))
    if len(os.fsencode(folder)) < _PATH_LIMIT - len(f"/{SOCKET}"):
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=_SHORT))
