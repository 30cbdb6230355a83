"""Opening exactly the path that was checked.

A resolved path has no links. Here it is walked from the root one folder at a
time, each step by descriptor and without following links: if any part was
swapped for a link after the check, the walk fails instead of leading elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.files.failures import NotAFileError
from tools.umask import make_folder

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on plain files.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


MAX_WHOLE_BYTES = 50_000_000
"""Size above which a file is not held in memory as a whole."""


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """A descriptor of the folder `path` (absolute, resolved), for `dir_fd` arguments only.

    Raises `OSError`; `ENOTDIR` or `ELOOP` when a part of the path is a link or no folder.
    """
    descriptor = os.open("/", _FOLDER)
    try:
        for name in path.parts[1:]:
            descriptor = _step(descriptor, name)
        yield descriptor
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> list[Path]:
    """Create the folder `path` and what is missing above it; returns the new ones, outermost first."""
    made: list[Path] = []
    descriptor = os.open("/", _FOLDER)
    try:
        here = Path("/")
        for name in path.parts[1:]:
            here = here / name
            try:
                make_folder(name, dir_fd=descriptor)
                made.append(here)
            except FileExistsError:
                pass
            except OSError:
                # A read-only parent answers before it looks whether the folder is there.
                if not _is_folder(name, descriptor):
                    raise
            descriptor = _step(descriptor, name)
    except OSError:
        remove_folders(made)
        raise
    finally:
        os.close(descriptor)
    return made


def remove_folders(made: list[Path]) -> None:
    """Take back what `make_folders` made, as far as it is still empty."""
    for folder in reversed(made):
        try:
            folder.rmdir()
        except OSError:
            continue


def open_file(path: Path) -> int:
    """A descriptor for reading the plain file `path` (absolute, resolved).

    Raises `NotAFileError` for everything else and `OSError` when it cannot be opened.
    """
    with open_folder(path.parent) as folder:
        # Devices may act on being opened, so look before.
        require_file(os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(path.name, _READ, dir_fd=folder)
    try:
        require_file(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: Path, limit: int = MAX_WHOLE_BYTES) -> tuple[bytes, os.stat_result]:
    """The whole content of a plain file and its status. Raises `OSError` (`EFBIG` above `limit` bytes)."""
    with os.fdopen(open_file(path), "rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"the file is larger than {limit} bytes")
    return data, status


def read_plain(path: Path, limit: int = MAX_WHOLE_BYTES) -> bytes:
    """`read_bytes` for a path that may hold links. A FIFO or device is an error, never waited for."""
    return read_bytes(Path(os.path.realpath(path)), limit)[0]


def entry_status(path: Path) -> os.stat_result | None:
    """Status of what stands at `path`, links not followed; None when nothing does."""
    try:
        with open_folder(path.parent) as folder:
            return os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def require_file(status: os.stat_result) -> None:
    """Raise unless `status` is that of a plain file: `ELOOP` for a link, else `NotAFileError`."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(mode):
        raise NotAFileError("folder")
    if stat.S_ISFIFO(mode):
        raise NotAFileError("FIFO")
    raise NotAFileError("socket" if stat.S_ISSOCK(mode) else "device")


def _step(descriptor: int, name: str) -> int:
    """Go one folder down; the descriptor above is closed only when that worked."""
    below = os.open(name, _FOLDER, dir_fd=descriptor)
    os.close(descriptor)
    return below


def _is_folder(name: str, descriptor: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
    except OSError:
        return False
