"""Empty folders and files that reserve forbidden paths while any sandbox needs them.

Several processes may need the same placeholder. Each of them holds a shared lock on it, and the last one
removes it. A placeholder left by a killed process is distinguished from a user's file by its modification
time.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tools.files.atomic_swap import move_free
from tools.kit.files import lock_file, write_new
from tools.results import ToolError

TIME = 499_162_500
"""The modification time of a placeholder, in seconds since the epoch: a moment in 1985."""
MOUNT_MODE = 0o444
"""The mode of a mount point file created by bubblewrap or Hermes's launcher."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NONE: Mapping[Path, bytes] = MappingProxyType({})
_HARMLESS = (b"", b".\n")
"""The possible contents of a placeholder."""
_PATIENCE = 1.0
RESTING = ".resting-*"
"""The pattern of the names of inactive placeholders in the folder to which they are moved."""
_lock = threading.Lock()


@dataclass(slots=True)
class _Held:
    """A placeholder that this process needs, locked while any of its sandboxes is active."""

    descriptor: int
    users: int = 0
    resting: int = 0
    """The number of inactive sandboxes that have it mounted."""
    folder: Path = Path()
    """The folder to which it is moved while all of these sandboxes are inactive."""
    away: Path | None = None
    """The path in that folder; None if it is at its own path."""
    serial: int = 0
    """The number of placeholders lost at this path so far. Mounts over lost ones no longer exist."""


_held: dict[Path, _Held] = {}
_numbers = itertools.count(1)


@dataclass(slots=True)
class ReservedNames:
    """Placeholders in use, until they are released."""

    _paths: dict[Path, int | None] = field(default_factory=dict[Path, int | None])
    """The serial of each inactive placeholder when it was moved away; None if it is in use."""

    def release(self) -> None:
        """Release the placeholders; the last process removes them. May be called again.

        A placeholder stays while another sandbox uses it, because removing it would remove the mount over it.
        """
        with _lock:
            while self._paths:
                path, serial = self._paths.popitem()
                if serial is None:
                    _held[path].users -= 1
                    _move_or_remove(path)
                elif (held := _held.get(path)) is not None and held.serial == serial:
                    held.resting -= 1
                    _move_or_remove(path)

    def withdraw(self, folder: Path) -> None:
        """Move the placeholders to `folder` until `restore`; those that other sandboxes use stay.

        A mount over a placeholder is moved with it. Raises `OSError` if one cannot be moved.
        """
        with _lock:
            for path, serial in self._paths.items():
                if serial is None:
                    held = _held[path]
                    held.users -= 1
                    held.resting += 1
                    held.folder = folder
                    self._paths[path] = held.serial
                    _move_or_remove(path)
                    if held.serial != self._paths[path]:
                        raise OSError(f"{path} cannot be moved to {folder}")

    def add(self, path: Path, content: bytes | None) -> None:
        """Add a placeholder; for `hold`."""
        if path not in self._paths:
            _share(path, content)
            self._paths[path] = None

    def restore(self) -> bool:
        """Move the placeholders back; return whether the same ones are at their paths again."""
        with _lock:
            for path, serial in self._paths.items():
                if serial is None:
                    continue
                held = _held.get(path)
                if held is None or held.serial != serial or not _move_back(path, held):
                    return False
                held.resting -= 1
                held.users += 1
                self._paths[path] = None
        return True


def hold(folders: Iterable[Path], files: Mapping[Path, bytes] = _NONE) -> ReservedNames:
    """Create placeholders: the folders, and the files with their content. Existing ones are shared.

    None is created for a path that no program of this user can create. Raises `OSError` if one cannot be
    created, and `ToolError` if a program keeps it locked.
    """
    mine = ReservedNames()
    try:
        for path in (*folders, *files):
            if can_be_made(path):
                with _lock:
                    mine.add(path, files.get(path))
    except BaseException:
        mine.release()
        raise
    return mine


def can_be_made(path: Path) -> bool:
    """Return whether a program of this user could create `path`, perhaps after a change of its folder."""
    try:
        if os.access(path.parent, os.W_OK | os.X_OK):
            return True
        of_this_user = path.parent.stat().st_uid == os.geteuid()
        return of_this_user and not os.statvfs(path.parent).f_flag & os.ST_RDONLY
    except OSError:
        return True


def is_missing(path: Path) -> bool:
    """Return whether nothing but a placeholder exists at `path`.

    A caller that relies on this must hold the placeholder too.
    """
    return not os.path.lexists(path) or is_placeholder(path)


def is_placeholder(path: Path) -> bool:
    """Return whether `path` has the modification time and content of a placeholder."""
    try:
        return int(path.lstat().st_mtime) == TIME and _is_unused(path)
    except OSError:
        return False


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove the placeholders among `paths` left behind by processes that were killed."""
    for path in paths:
        with _lock, suppress(OSError):
            used = path in _held or any(path == held.away for held in _held.values())
            if not used and is_placeholder(path):
                _remove(path, os.open(path, _OPEN))


def unmounted(paths: Iterable[Path]) -> Callable[[], None]:
    """Return a cleanup function for files that disappear while a sandbox is set up.

    In that case the mount leaves an empty file at the path, which the function removes.
    """
    before = {path: _born(path) for path in paths}

    def clear() -> None:
        for path, known in before.items():
            with suppress(OSError):
                status = path.lstat()
                is_empty = stat.S_ISREG(status.st_mode) and not status.st_size
                if is_empty and stat.S_IMODE(status.st_mode) == MOUNT_MODE and _born(path) != known:
                    path.unlink()

    return clear


def _is_unused(path: Path) -> bool:
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        return next(path.iterdir(), None) is None
    return stat.S_ISREG(status.st_mode) and status.st_size <= 2 and path.read_bytes() in _HARMLESS


def _born(path: Path) -> tuple[int, int]:
    """Return values that identify a file. The inode alone is not enough, because inodes are reused."""
    try:
        status = path.lstat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_ctime_ns


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _share(path: Path, content: bytes | None) -> None:
    """Use an existing placeholder, or create one. Another process may be removing it at the same time."""
    held = _held.get(path)
    if held is None:
        _held[path] = held = _Held(_locked(path, content))
    elif not _move_back(path, held):
        descriptor = _locked(path, content)
        _lose(held)
        held.descriptor = descriptor
    held.users += 1


def _move_back(path: Path, held: _Held) -> bool:
    """Move a placeholder back to its path and lock it; return whether it is there."""
    if held.users:
        return _is_at(path, held.descriptor)
    try:
        if held.away is not None and _is_at(held.away, held.descriptor):
            move_free(held.away, path)
            held.away = None
        return lock_file(held.descriptor, shared=True, seconds=0) and _is_at(path, held.descriptor)
    except OSError:
        return False


def _move_or_remove(path: Path) -> None:
    """Move a placeholder away if only inactive sandboxes need it; remove it if none does."""
    held = _held[path]
    if held.users:
        return
    if not held.resting:
        del _held[path]
        _remove(held.away or path, held.descriptor)
    elif held.away is None:
        try:
            # Another process that uses it has locked it too, and removes it after use.
            if lock_file(held.descriptor, seconds=0) and _is_at(path, held.descriptor):
                away = held.folder / RESTING.replace("*", f"{os.getpid()}-{next(_numbers)}")
                move_free(path, away)
                held.away = away
            fcntl.flock(held.descriptor, fcntl.LOCK_UN)
        except OSError:
            _remove(path, held.descriptor)
            del _held[path]
            held.serial += 1


def _lose(held: _Held) -> None:
    """Release a placeholder that is no longer at its path."""
    if held.away is not None:
        _remove(held.away, held.descriptor)
    else:
        os.close(held.descriptor)
    held.away, held.resting = None, 0
    held.serial += 1


def _locked(path: Path, content: bytes | None) -> int:
    """Return a descriptor of the placeholder at `path`, with a shared lock. Raises `ToolError`."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with suppress(FileExistsError):
            _make(path, content)
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            continue
        try:
            if lock_file(descriptor, shared=True, seconds=0.001) and _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise ToolError(f"{path} is kept locked by a program, so the sandbox cannot be drawn; end that program.")


def _remove(path: Path, descriptor: int) -> None:
    """Remove a placeholder unless another process uses it. Closes the descriptor."""
    try:
        if lock_file(descriptor, seconds=0) and _is_at(path, descriptor) and _is_unused(path):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the opened file or folder is still at `path`."""
    status = os.fstat(descriptor)
    return _identity(path) == (status.st_dev, status.st_ino)


def _make(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir(mode=0o700)
    else:
        write_new(path, content)
    os.utime(path, (TIME, TIME), follow_symlinks=False)
