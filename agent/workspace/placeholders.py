"""Empty folders and files that reserve forbidden paths while any sandbox needs them.

Several processes may need the same placeholder: each holds a shared lock on it, and the last one removes it.
Its modification time identifies a placeholder, to distinguish one left by a killed process from a user's
file.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tools.kit.files import lock_file, write_new
from tools.results import ToolError

TIME = 499_162_500
"""The time of a placeholder, in seconds since the epoch: some moment of 1985."""
MOUNT_MODE = 0o444
"""The mode of the mount point file made by bubblewrap or our launcher."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NONE: Mapping[Path, bytes] = MappingProxyType({})
_HARMLESS = (b"", b".\n")
"""What a placeholder may hold."""
_PATIENCE = 1.0
_lock = threading.Lock()


@dataclass(slots=True)
class _Held:
    """A placeholder that this process needs and has locked."""

    descriptor: int
    users: int = 0


_held: dict[Path, _Held] = {}


def hold(folders: Iterable[Path], files: Mapping[Path, bytes] = _NONE) -> Callable[[], None]:
    """Create placeholders: the folders, and the files with their content. Existing ones are shared.

    Returns a function that releases them; the last process removes them. If one were removed while it is
    mounted over in another sandbox, it would lose its protection there. Raises `OSError` if one cannot be
    created, and `ToolError` if a program keeps it locked.
    """
    mine: list[Path] = []

    def let_go() -> None:
        with _lock:
            while mine:
                _release(mine.pop())

    try:
        for path in (*folders, *files):
            with _lock:
                _share(path, files.get(path))
                mine.append(path)
    except BaseException:
        let_go()
        raise
    return let_go


def is_missing(path: Path) -> bool:
    """Return whether nothing but a placeholder exists at `path`.

    A caller that relies on that must hold the placeholder too.
    """
    return not os.path.lexists(path) or is_placeholder(path)


def is_placeholder(path: Path) -> bool:
    """Return whether `path` is a placeholder that no process uses."""
    try:
        return int(path.lstat().st_mtime) == TIME and _is_unused(path)
    except OSError:
        return False


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove the placeholders among `paths` left by killed processes."""
    for path in paths:
        with _lock, suppress(OSError):
            if path not in _held and is_placeholder(path):
                _remove(path, os.open(path, _OPEN))


def unmounted(paths: Iterable[Path]) -> Callable[[], None]:
    """Return a cleanup function for files that disappear while a sandbox is set up.

    In that case the mount leaves an empty file at the path, which is removed.
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
    """Return values that identify a file. The inode is not enough, because it is reused."""
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
    """Hold an existing placeholder, or create one. Another process may be removing it at the same time."""
    held = _held.get(path)
    if held is None or not _stands(path, held.descriptor):
        descriptor = _locked(path, content)
        users = 0
        if held is not None:
            users = held.users
            os.close(held.descriptor)
        _held[path] = held = _Held(descriptor, users)
    held.users += 1


def _locked(path: Path, content: bytes | None) -> int:
    """Return a descriptor of the placeholder at `path`, with a shared lock."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with suppress(FileExistsError):
            _make(path, content)
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            continue
        try:
            if lock_file(descriptor, shared=True, seconds=0.001) and _stands(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise ToolError(f"{path} is kept locked by a program, so the sandbox cannot be drawn; end that program.")


def _release(path: Path) -> None:
    held = _held[path]
    held.users -= 1
    if not held.users:
        del _held[path]
        _remove(path, held.descriptor)


def _remove(path: Path, descriptor: int) -> None:
    """Remove a placeholder unless it is needed or used by others. Closes the descriptor."""
    try:
        if lock_file(descriptor, seconds=0) and _stands(path, descriptor) and _is_unused(path):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _stands(path: Path, descriptor: int) -> bool:
    """Return whether the opened object is still at `path`."""
    status = os.fstat(descriptor)
    return _identity(path) == (status.st_dev, status.st_ino)


def _make(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir(mode=0o700)
    else:
        write_new(path, content)
    os.utime(path, (TIME, TIME), follow_symlinks=False)
