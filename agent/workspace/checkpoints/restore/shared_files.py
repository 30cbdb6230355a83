"""Writing old bytes back into a file that has hard links outside of the workspace.

If a step writes through a hard link, the change is visible under all names of the file. Replacing the file
would undo it under only one name. So the bytes are written into the existing file. If a restore is killed
during this, that is recognised by the bytes before and after, and the write is finished.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.objects import CHUNK, write_all

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def is_shared(folder: int, name: str, entry: PathEntry | None) -> bool:
    """Return whether the file `name` in an open folder is the one in `entry`, with several hard links."""
    if entry is None or entry.kind is not PathKind.FILE or not entry.inode:
        return False
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and str(status.st_ino) == entry.inode


def write_through(folder: int, name: str, chunks: Iterable[bytes], mode: int, modified: int) -> None:
    """Replace the content, mode and modification time of the existing file `name` in an open folder, keeping
    its hard links. Raises `OSError`.
    """
    try:
        descriptor = os.open(name, _OPEN, dir_fd=folder)
    except PermissionError:
        os.chmod(name, mode | stat.S_IWUSR, dir_fd=folder)
        descriptor = os.open(name, _OPEN, dir_fd=folder)
    try:
        size = 0
        for data in chunks:
            write_all(descriptor, data)
            size += len(data)
        os.ftruncate(descriptor, size)
        os.fchmod(descriptor, mode)
        if modified > 0:
            os.utime(descriptor, ns=(modified, modified))
    finally:
        os.close(descriptor)


def is_half_written(found: bytes, now: bytes, wanted: bytes) -> bool:
    """Return whether the bytes `found` are a partly written change from `now` to `wanted`."""
    same = len(os.path.commonprefix([found, wanted]))  # noqa: RUF071
    return found[same:] == now[same:]


def read_pieces(folder: int, name: str) -> Iterator[bytes]:
    """Yield the bytes of a file in an open folder, piece by piece. Raises `OSError`."""
    with os.fdopen(os.open(name, READ, dir_fd=folder), "rb", buffering=0) as file:
        while data := file.read(CHUNK):
            yield data


READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
