"""Replacing a file so that every reader, and every crash, sees the old or the new content."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from tools.files.descriptors import open_folder, require_file
from tools.umask import open_up

TEMPORARY_PREFIX = ".hermes-"
"""Start of the names of unfinished files; they stand beside their target for a moment."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF)


def write_atomically(
    path: Path,
    data: bytes,
    mode: int | None = None,
    *,
    follow_links: bool = True,
    like: Path | None = None,
    token: str = "",
    for_person: bool = False,
) -> None:
    """Make `data` the content of `path`, on disk before this returns.

    An existing file keeps its mode, extended attributes and, where permitted,
    its owner; `like` names another file to take them from, and `mode` overrides
    the mode. `token` begins the name of the unfinished file. A new file without
    `mode` follows the umask: that of the process, or `for_person` that of who started
    Hermes. Links lead to their target, unless `follow_links` is off: then a link anywhere
    in the path is an error. Raises `OSError`; the old content is intact then and no
    temporary file is left.
    """
    target = Path(os.path.realpath(path)) if follow_links else path
    with open_folder(target.parent) as folder:
        before = _existing(folder, target.name)
        if before is not None and not os.access(target.name, os.W_OK, dir_fd=folder):
            # A rename would pass over a file its owner has made read-only.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        temporary = f"{TEMPORARY_PREFIX}{token}{secrets.token_hex(8)}.tmp"
        pattern = like or (target if before is not None else None)
        try:
            _write_new(folder, temporary, data, mode, pattern, for_person=for_person)
            os.replace(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _discard(folder, temporary)
            raise
        sync_folder(folder)


def sync_folder(folder: int) -> None:
    """Bring names in a folder to disk, where the file system knows how to."""
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


def _existing(folder: int, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_file(status)
    return status


def _write_new(
    folder: int, name: str, data: bytes, mode: int | None, pattern: Path | None, *, for_person: bool
) -> None:
    # Content that is to be private must not be readable for a moment either.
    start_mode = 0o666 if mode is None and pattern is None else 0o600
    with os.fdopen(os.open(name, _NEW_FILE, start_mode, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        if pattern is not None:
            _take_after(file.fileno(), pattern)
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        elif pattern is None and for_person:
            open_up(file.fileno(), folder)
        os.fsync(file.fileno())


def _take_after(descriptor: int, pattern: Path) -> None:
    """Give a new file owner, attributes and mode of `pattern`, in the order that keeps the mode."""
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


def _discard(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass
