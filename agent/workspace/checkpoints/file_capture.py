"""Reading the state of a path in the workspace, safely and exactly.

A path is opened folder by folder without following links, so it never leads out of the workspace. Only
regular files are opened. A file that changes while it is read is read again. If it keeps changing, that is
reported, and nothing is stored.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathEntry, PathKind, unreadable
from agent.workspace.checkpoints.objects import CHUNK, ObjectStore
from agent.workspace.checkpoints.units import TOP
from tools.kit.files import open_folder

ATTEMPTS = 3
"""The number of times a file that keeps changing is read."""
SETTLED = 2_000_000_000
"""The nanoseconds after which a file's time certainly reveals a later change, on any file system."""

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: a file that became a pipe after the check must not block Hermes.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_AT_ONCE = 1_000_000
_ATTRIBUTES = ("system.posix_acl", "security.capability", "user.")


class _ChangedError(Exception):
    """Raised if the file changed while it was read."""


def capture_path(
    root: Path,
    path: str,
    objects: ObjectStore | None,
    *,
    limit: int,
    known: PathEntry | None = None,
    link: bool = False,
) -> PathEntry | None:
    """Return the current state of `path` (relative to the resolved folder `root`, with `/`); None if missing.

    An absolute path (resolved) is used unchanged, and `.` is the folder `root`: see `entries.PathChange`.
    Contents are added to `objects`; without it they are only hashed. A file above `limit` bytes, or one that
    is unreadable or keeps changing, has a reason instead of a digest.

    A file with the size, mode and time of `known` is not read again, unless it changed within the last two
    seconds or its contents are not in `objects`. A caller that knows more (the inode, the change time) uses
    that to decide whether to pass `known`. With `link`, contents are kept by a hard link if possible,
    whatever their size.

    Blocks. Raises `StoreError` if contents cannot be stored, or for a path that leads out of the workspace.
    """
    if path.startswith("/"):
        root, path = Path(path).parent, Path(path).name
    parts = [] if path == TOP else _parts(path)
    try:
        with open_folder(root) as top:
            if not parts:
                return _plain(os.fstat(top), PathKind.FOLDER)
            return _below(top, parts, objects, limit, known, link)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        return PathEntry(PathKind.OTHER, 0, reason=unreadable(error))


def inode_of(status: os.stat_result) -> str:
    """Return the inode as text for a regular file with several hard links; empty for anything else."""
    return str(status.st_ino) if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else ""


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise StoreError(f"{path[:200]!r} is not a path inside a workspace.")
    return parts


def _below(
    top: int,
    parts: list[str],
    objects: ObjectStore | None,
    limit: int,
    known: PathEntry | None,
    link: bool,
) -> PathEntry | None:
    """Open the folder that contains the path and return the path's state. Raises `OSError`."""
    reason = ""
    device = os.fstat(top).st_dev
    folder = os.dup(top)
    try:
        for name in parts[:-1]:
            below = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        if os.fstat(folder).st_dev != device:
            reason = "is on another file system"
        attempts = ATTEMPTS
        while True:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_dev != device:
                reason = "is on another file system"
            if reason:
                return _plain(status, PathKind.OTHER, reason=reason)
            try:
                entry = _entry(folder, parts[-1], status, objects, limit, known, link)
                inode = inode_of(status)
                return entry if entry.inode == inode else replace(entry, inode=inode)
            except _ChangedError:
                attempts -= 1
                if not attempts:
                    return _plain(status, PathKind.FILE, reason="changed while it was read")
    finally:
        os.close(folder)


def _entry(
    folder: int,
    name: str,
    status: os.stat_result,
    objects: ObjectStore | None,
    limit: int,
    known: PathEntry | None,
    link: bool,
) -> PathEntry:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return _link(folder, name, status)
    if stat.S_ISDIR(mode):
        return _plain(status, PathKind.FOLDER)
    if not stat.S_ISREG(mode):
        return _plain(status, PathKind.OTHER, reason=_special(mode))
    if link and objects is not None and (digest := _linked(folder, name, status, objects)):
        return PathEntry(PathKind.FILE, stat.S_IMODE(mode), status.st_size, status.st_mtime_ns, digest)
    if status.st_size > limit:
        return _plain(status, PathKind.FILE, reason=f"larger than {_amount(limit)}")
    if known is not None and _unchanged(known, status, objects):
        return known
    try:
        digest, size, attributes = _contents(folder, name, status, objects)
    except OSError as error:
        if error.errno in _NOTHING:
            raise _ChangedError from error
        return _plain(status, PathKind.FILE, reason=unreadable(error))
    entry = PathEntry(PathKind.FILE, stat.S_IMODE(mode), size, status.st_mtime_ns, digest)
    return replace(entry, attributes=attributes) if attributes else entry


def attributes_of(file: int | Path) -> str:
    """Return the names of a file's access lists, capabilities and user attributes, separated by spaces.

    It is empty if there are none, and on systems without them.
    """
    try:
        names = os.listxattr(file, **({"follow_symlinks": False} if isinstance(file, Path) else {}))
    except (AttributeError, OSError):
        return ""
    return " ".join(sorted(name for name in names if name.startswith(_ATTRIBUTES)))


def _linked(folder: int, name: str, status: os.stat_result, objects: ObjectStore) -> str | None:
    try:
        with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb", buffering=0) as file:
            if not os.path.samestat(os.fstat(file.fileno()), status):
                raise _ChangedError
            return objects.link(folder, name, file.read)
    except OSError:
        return None


def _link(folder: int, name: str, status: os.stat_result) -> PathEntry:
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        raise _ChangedError from error
    return PathEntry(PathKind.LINK, 0, 0, status.st_mtime_ns, target=target)


def _unchanged(known: PathEntry, status: os.stat_result, objects: ObjectStore | None) -> bool:
    return (
        known.kind is PathKind.FILE
        and known.digest is not None
        and (known.size, known.mode, known.modified)
        == (status.st_size, stat.S_IMODE(status.st_mode), status.st_mtime_ns)
        and status.st_mtime_ns < time.time_ns() - SETTLED
        and (objects is None or objects.has(known.digest))
    )


def _contents(
    folder: int, name: str, status: os.stat_result, objects: ObjectStore | None
) -> tuple[str, int, str]:
    """Return digest, size and attribute names of a regular file.

    Raises `_ChangedError` if it changed in the meantime, and `OSError`.
    """
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        if not os.path.samestat(before, status) or _stamp(before) != _stamp(status):
            raise _ChangedError
        reading = _Bounded(file.read, status.st_size)
        digest, size = _keep(reading, status.st_size, objects)
        if size != status.st_size or _stamp(os.fstat(file.fileno())) != _stamp(status):
            raise _ChangedError
        return digest, size, attributes_of(file.fileno())


class _Bounded:
    """A reader that reads at most one byte beyond the expected size, however fast a file grows."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read = read
        self._left = size + 1

    def __call__(self, count: int) -> bytes:
        data = self._read(min(count, self._left)) if self._left else b""
        self._left -= len(data)
        return data


def _keep(read: Callable[[int], bytes], size: int, objects: ObjectStore | None) -> tuple[str, int]:
    if objects is not None and size > _AT_ONCE:
        return objects.put_stream(read)
    if objects is not None:
        data = b"".join(iter(lambda: read(CHUNK), b""))
        if len(data) != size:
            raise _ChangedError
        return objects.add(data), size
    hashed, count = sha256(), 0
    while data := read(CHUNK):
        hashed.update(data)
        count += len(data)
    return hashed.hexdigest(), count


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _plain(status: os.stat_result, kind: PathKind, *, reason: str = "") -> PathEntry:
    size = status.st_size if kind is PathKind.FILE else 0
    return PathEntry(kind, stat.S_IMODE(status.st_mode), size, status.st_mtime_ns, reason=reason)


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "is a pipe"
    return "is a socket" if stat.S_ISSOCK(mode) else "is a device"


def _amount(limit: int) -> str:
    return f"{limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"{limit:,} bytes"
