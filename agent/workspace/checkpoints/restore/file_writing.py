"""Writing the file that takes another one's place."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from agent.workspace.checkpoints.entries import PathEntry
from agent.workspace.checkpoints.objects import write_all

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PRIVILEGES = "security.capability"


def write_sparsely(descriptor: int, chunks: Iterable[bytes]) -> None:
    """Write pieces one after the other; long runs of zeros become holes. Raises `OSError`."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if chunk.count(0) == len(chunk):
            os.lseek(descriptor, len(chunk), os.SEEK_CUR)
        else:
            write_all(descriptor, chunk)
    os.ftruncate(descriptor, size)


def set_time(folder: int, name: str, entry: PathEntry) -> None:
    """Give a file or a link its time, as far as that is allowed; one without a time keeps that of now."""
    if entry.modified > 0:
        with suppress(OSError):
            os.utime(name, ns=(entry.modified, entry.modified), dir_fd=folder, follow_symlinks=False)


def take_over(folder: int, name: str, descriptor: int) -> None:
    """Give a new file the owner, access list and attributes of the file `name`, as far as that is allowed."""
    with suppress(OSError):
        old = os.open(name, _READ, dir_fd=folder)
        try:
            _owner(old, descriptor)
            _attributes(old, descriptor)
        finally:
            os.close(old)


def _owner(old: int, new: int) -> None:
    was, now = os.fstat(old), os.fstat(new)
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        with suppress(OSError):
            os.fchown(new, was.st_uid, was.st_gid)


def _attributes(old: int, new: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    for name in os.listxattr(old):
        # Privileges were given to other bytes than these.
        if name != _PRIVILEGES:
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))
