"""The folders copies live in, and clearing away what killed processes left of them.

```
copies/ID.lock      locked by the process whose copy it is, as long as that lives
copies/ID/NAME      the copy; NAME is the name of the workspace
copies/ID/.git      no repository: git does not look for one above the copy
copies/ID/held      for whom it is kept when its process has ended: see `held`
```
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from agent.core.home import private_folder
from agent.errors import ConfigError, StoreError
from tools.kit.files import create_file, file_lock, lock_file, open_lock

HELD = "held"
"""The file that tells for whom a copy is kept."""

_LOCK = ".lock"
_BARRIER = b"A copy made by Hermes. The repository around its original is not part of it.\n"


class CopyFolder:
    """A folder of its own for one copy, ours until `remove`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock: int | None = lock

    @property
    def id(self) -> str:
        return self.folder.name

    def remove(self) -> None:
        """Take the copy away, with all that is in it. Blocking; may be called again. Raises `StoreError`."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            _remove(self.folder)
            _lock_of(self.folder).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"The copy {self.folder} cannot be removed: {error.strerror or error}; it is tried again "
                "at the next start."
            ) from error
        finally:
            os.close(lock)

    def leave(self) -> None:
        """Let the folder be where it is, for whoever takes it up again. May be called again."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.close(lock)


def claim(copies: Path) -> CopyFolder:
    """A new folder below `copies`. Raises `StoreError`."""
    try:
        private_folder(copies)
        while True:
            folder = copies / secrets.token_hex(6)
            lock = create_file(_lock_of(folder))
            try:
                if not lock_file(lock, seconds=0):
                    # A sweep was quicker: it takes the lock file for a left one.
                    os.close(lock)
                    continue
                folder.mkdir(0o700)
                (folder / ".git").write_bytes(_BARRIER)
            except BaseException:
                os.close(lock)
                raise
            return CopyFolder(folder, lock)
    except ConfigError as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise StoreError(f"No copy can be made in {copies}: {error.strerror or error}.") from error


def take_up(copies: Path, id: str) -> CopyFolder:
    """The folder of a copy that was left. Raises `StoreError` when it is gone, or another process has it."""
    folder = copies / id
    try:
        lock = open_lock(_lock_of(folder))
        try:
            if not lock_file(lock, seconds=0):
                raise BlockingIOError
            if not folder.is_dir():
                _lock_of(folder).unlink(missing_ok=True)
                raise StoreError(f"The copy {folder} is no longer there.")
        except BaseException:
            os.close(lock)
            raise
        return CopyFolder(folder, lock)
    except BlockingIOError as error:
        raise StoreError(
            f"Another process works with the copy {folder}; try again when it is done."
        ) from error
    except OSError as error:
        raise StoreError(f"The copy {folder} cannot be used: {error.strerror or error}.") from error


def sweep(copies: Path, forsaken: Collection[str] = ()) -> int:
    """Remove the copies of processes that have ended; returns how many. Blocking; never raises.

    One that is held for somebody stays, unless its id is among the `forsaken`.
    """
    removed = 0
    with suppress(OSError):
        names = {path.name.removesuffix(_LOCK) for path in copies.iterdir()}
        for name in sorted(names):
            with suppress(OSError):
                removed += _swept(copies / name, name in forsaken)
    return removed


def _swept(folder: Path, forsaken: bool) -> bool:
    with file_lock(_lock_of(folder), seconds=0):
        if (folder / HELD).is_file() and not forsaken:
            return False
        there = folder.is_dir()
        _remove(folder)
        _lock_of(folder).unlink(missing_ok=True)
        return there


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)


def _remove(folder: Path) -> None:
    """Remove a folder with all below it, folders nobody may write in too. Raises `OSError`."""
    if not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
    except PermissionError:
        for above, names, _ in os.walk(folder):
            for place in (Path(above), *(Path(above, name) for name in names)):
                mode = place.lstat().st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                    place.chmod(0o700)
        shutil.rmtree(folder)
