"""Files for every part of the program: opened by the checked path, private, crash-safe, locked.

A resolved path has no links. Here it is opened from the root one folder at a time, by descriptor and without
following links. If a part of it was replaced by a link after the check, opening fails.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tools.kit.umask import apply_user_mode, make_folder

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
MAX_WHOLE_BYTES = 50_000_000
"""Size above which a file is not held in memory as a whole."""
TEMPORARY_PREFIX = ".hermes-"
"""The name prefix of unfinished files, which exist next to their target for a moment."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on plain files.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF)
_SHORTEST_WAIT, _LONGEST_WAIT = 0.0005, 0.05


class NotAFileError(OSError):
    """Raised if a path names a folder, device, FIFO or socket. `kind` says which."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EISDIR if kind == "folder" else errno.EINVAL, f"it is a {kind}, not a file")
        self.kind = kind


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Open a descriptor of the folder `path` (absolute, resolved), for `dir_fd` arguments only.

    Raises `OSError`; `ENOTDIR` or `ELOOP` if a part of the path is a link or not a folder.
    """
    descriptor = os.open("/", _FOLDER)
    try:
        for name in path.parts[1:]:
            descriptor = _step(descriptor, name)
        yield descriptor
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> list[Path]:
    """Create the folder `path` and missing parents; return the new ones, outermost first."""
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
    """Remove those folders made by `make_folders` that are still empty."""
    for folder in reversed(made):
        try:
            folder.rmdir()
        except OSError:
            continue


def open_file(path: Path) -> int:
    """Open the regular file `path` (absolute, resolved) for reading; return the descriptor.

    Raises `NotAFileError` for everything else and `OSError` if it cannot be opened.
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
    """Return content and status of a regular file. Raises `OSError` (`EFBIG` above `limit` bytes)."""
    with os.fdopen(open_file(path), "rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"the file is larger than {limit} bytes")
    return data, status


def read_plain(path: Path, limit: int = MAX_WHOLE_BYTES) -> bytes:
    """Return the content of a regular file, whose path may contain links.

    Raises `OSError`. A FIFO or a device is an error and is not waited for.
    """
    return read_bytes(Path(os.path.realpath(path)), limit)[0]


def entry_status(path: Path) -> os.stat_result | None:
    """Return the status of `path`, links not followed; None if it does not exist."""
    try:
        with open_folder(path.parent) as folder:
            return os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def require_file(status: os.stat_result) -> None:
    """Raise unless `status` is that of a regular file: `ELOOP` for a link, else `NotAFileError`."""
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


def read_owned(path: Path, largest: int) -> bytes | None:
    """Return the content of a file that belongs to this user and that no one else may write.

    Returns None for any other file, a link, or more than `largest` bytes. Reads the disk.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o022 or status.st_size > largest:
            return None
        try:
            return opened.read(largest)
        except OSError:
            return None


def create_file(path: str | Path, mode: int = PRIVATE_FILE, *, folder: int | None = None) -> int:
    """Create a file; return its descriptor for reading and writing.

    `folder` is the descriptor of the folder that `path` is relative to. Raises `OSError`; `FileExistsError`
    if the path exists, also as a link.
    """
    return os.open(path, _NEW, mode, dir_fd=folder)


def write_new(
    path: str | Path,
    data: bytes,
    mode: int = PRIVATE_FILE,
    *,
    folder: int | None = None,
    durable: bool = False,
) -> None:
    """Write a new file, flushed to disk if `durable`. Raises like `create_file`."""
    with os.fdopen(create_file(path, mode, folder=folder), "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def write_atomically(
    path: Path,
    data: bytes | Iterable[bytes],
    mode: int | None = None,
    *,
    follow_links: bool = True,
    replace_any: bool = False,
    like: Path | None = None,
    token: str = "",
    for_person: bool = False,
    durable: bool = True,
    prefix: str = TEMPORARY_PREFIX,
) -> None:
    """Replace the content of `path` with `data`, or its pieces, flushed to disk if `durable`.

    An existing file keeps its mode, extended attributes and, where permitted, its owner; `like` names another
    file to take them from, and `mode` overrides the mode. `prefix` and `token` begin the name of the
    unfinished file. A new file without `mode` follows the umask: that of the process, or with `for_person`
    the user's. Links lead to their target, unless `follow_links` is off: then a link anywhere in the path is
    an error. With `replace_any`, for our own files, anything at `path` is replaced, including a link, a pipe
    or a read-only file; nothing is taken from it. Raises `OSError`; then the old content is intact and no
    temporary file is left.
    """
    target = Path(os.path.realpath(path)) if follow_links else path
    if replace_any:
        target = Path(os.path.realpath(path.parent)) / path.name
    with open_folder(target.parent) as folder:
        before = None if replace_any else _existing(folder, target.name)
        if before is not None and not os.access(target.name, os.W_OK, dir_fd=folder):
            # A rename would pass over a file its owner has made read-only.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        temporary = f"{prefix}{token}{os.urandom(8).hex()}.tmp"
        pattern = like or (target if before is not None else None)
        try:
            # Content that should be private must not be readable for a moment either.
            start_mode = 0o666 if mode is None and pattern is None else PRIVATE_FILE
            with os.fdopen(create_file(temporary, start_mode, folder=folder), "wb") as file:
                file.writelines((data,) if isinstance(data, bytes | bytearray | memoryview) else data)
                file.flush()
                if pattern is not None:
                    _take_after(file.fileno(), pattern)
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                elif pattern is None and for_person:
                    apply_user_mode(file.fileno(), folder)
                if durable:
                    os.fsync(file.fileno())
            try:
                os.replace(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                _write_over(folder, target.name, temporary, mode)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        if durable:
            sync_folder(folder)


def _write_over(folder: int, name: str, source: str, mode: int | None) -> None:
    """Move the content of the file `source` into a file that is mounted by itself, as containers do.

    Such a file cannot be replaced. Raises `OSError`; then its old content is written back.
    """
    opened = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(opened, "r+b") as file, os.fdopen(os.open(source, _READ, dir_fd=folder), "rb") as new:
        require_file(os.fstat(opened))
        old = file.read()
        try:
            _overwrite(file, new.read())
        except BaseException:
            _overwrite(file, old)
            raise
        if mode is not None:
            os.fchmod(opened, mode)
    os.unlink(source, dir_fd=folder)


def _overwrite(file: BinaryIO, data: bytes) -> None:
    file.seek(0)
    file.write(data)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: int) -> None:
    """Flush the names in a folder to disk, if the file system supports it."""
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def is_open_at(file: int, path: Path) -> bool:
    """Return whether an open file is the one at a path, rather than a former one."""
    try:
        return os.path.samestat(os.fstat(file), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def lock_file(descriptor: int, *, shared: bool = False, seconds: float | None = None) -> bool:
    """Lock an open file; False if it is still locked elsewhere after `seconds` (0: at once; None: no limit).

    The system releases the lock when the last descriptor of this opening is closed, however its process ends.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if seconds is None:
        fcntl.flock(descriptor, how)
        return True
    deadline, pause = time.monotonic() + seconds, _SHORTEST_WAIT
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_WAIT)


def open_lock(path: str | Path) -> int:
    """Open a private file used only as a lock, creating it if necessary. Raises `OSError`."""
    return os.open(path, _LOCK, PRIVATE_FILE)


@contextmanager
def file_lock(path: str | Path, *, seconds: float | None = None) -> Iterator[int]:
    """Hold the lock of a lock file, and yield its descriptor.

    Raises `BlockingIOError` if it is still locked elsewhere after `seconds` (see `lock_file`), and `OSError`.
    """
    descriptor = open_lock(path)
    try:
        if not lock_file(descriptor, seconds=seconds):
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def _existing(folder: int, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_file(status)
    return status


def _take_after(descriptor: int, pattern: Path) -> None:
    """Give a new file the owner, attributes and mode of `pattern`, in an order that keeps the mode."""
    with open_folder(pattern.parent) as folder:
        wanted = os.stat(pattern.name, dir_fd=folder, follow_symlinks=False)
        new = os.fstat(descriptor)
        if (wanted.st_uid, wanted.st_gid) != (new.st_uid, new.st_gid):
            _change_owner(descriptor, wanted)
        _copy_attributes(descriptor, pattern.name, folder)
    os.fchmod(descriptor, stat.S_IMODE(wanted.st_mode))


def _change_owner(descriptor: int, wanted: os.stat_result) -> None:
    for uid, gid in ((wanted.st_uid, wanted.st_gid), (-1, wanted.st_gid)):
        try:
            os.fchown(descriptor, uid, gid)
            return
        except PermissionError:
            continue


def _copy_attributes(descriptor: int, name: str, folder: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return
    try:
        for attribute in os.listxattr(source):
            try:
                os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
            except OSError:
                continue  # attributes of the system are not ours to set
    except OSError:
        pass  # the file system knows no attributes
    finally:
        os.close(source)


def _step(descriptor: int, name: str) -> int:
    """Open a subfolder; the parent's descriptor is closed only on success."""
    below = os.open(name, _FOLDER, dir_fd=descriptor)
    os.close(descriptor)
    return below


def _is_folder(name: str, descriptor: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
    except OSError:
        return False
