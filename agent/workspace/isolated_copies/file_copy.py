"""The bytes of one file, copied as fast as the file system can.

Copy-on-write where it knows that, otherwise within the kernel, otherwise through
our hands. Names are never shared: two names of one file would share its bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys

from tools.kit.files import create_file

_FICLONE = 0x40049409
"""Linux, `ioctl_ficlone(2)`."""
_SMALL = 262_144
_CHUNK = 8_388_608
_ATTEMPTS = 3
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_SUCH_WAY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY)


def cloned(source: int, target: int) -> bool:
    """Let the open file `target` share the blocks of `source` until one is written; False where it cannot."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def copy_file(name: str, source: int, target: int, *, clone: bool) -> tuple[os.stat_result, bool]:
    """Copy the plain file `name` of the open folder `source` into `target`: bytes, mode, times.

    Returns the status of the source and whether it held still. Raises `OSError`.
    """
    descriptor = os.open(name, _READ, dir_fd=source)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EAGAIN, "became something else while it was copied")
        copy = create_file(name, folder=target)
        try:
            return _written(descriptor, copy, status, clone)
        finally:
            os.close(copy)
    finally:
        os.close(descriptor)


def _written(source: int, copy: int, status: os.stat_result, clone: bool) -> tuple[os.stat_result, bool]:
    still = False
    for attempt in range(_ATTEMPTS):
        if attempt:
            os.ftruncate(copy, 0)
            status = os.fstat(source)
        if not (clone and cloned(source, copy)):
            _copy_bytes(source, copy, status)
        after = os.fstat(source)
        still = _stamp(after) == _stamp(status)
        if still:
            break
    if status.st_uid != os.geteuid() and os.geteuid() == 0:
        os.fchown(copy, status.st_uid, status.st_gid)
    os.fchmod(copy, stat.S_IMODE(status.st_mode))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    return status, still


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _copy_bytes(source: int, copy: int, status: os.stat_result) -> None:
    """At most as many bytes as the file had, so that one that keeps growing ends too; holes stay holes."""
    size = status.st_size
    if size <= _SMALL:
        at = 0
        while at < size and (data := os.pread(source, size - at, at)):
            at += _write(copy, data, at)
        return
    if status.st_blocks * 512 < size:
        os.ftruncate(copy, size)
        at = 0
        while at < size and (extent := _data_after(source, at, size)) is not None:
            _copy_range(source, copy, *extent)
            at = extent[1]
        return
    _copy_range(source, copy, 0, size)


def _data_after(source: int, at: int, size: int) -> tuple[int, int] | None:
    """Where the next bytes that are no hole begin and end; None when there are none."""
    try:
        begin = os.lseek(source, at, os.SEEK_DATA)
        return begin, min(size, os.lseek(source, begin, os.SEEK_HOLE))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        return at, size


def _copy_range(source: int, copy: int, begin: int, end: int) -> None:
    at = begin
    within_kernel = hasattr(os, "copy_file_range")
    while at < end:
        if within_kernel:
            try:
                count = os.copy_file_range(source, copy, min(_CHUNK, end - at), at, at)
            except OSError as error:
                if error.errno not in _NO_SUCH_WAY:
                    raise
                within_kernel = False
                continue
            if not count:
                return
            at += count
        else:
            data = os.pread(source, min(_CHUNK, end - at), at)
            if not data:
                return
            at += _write(copy, data, at)


def _write(copy: int, data: bytes, at: int) -> int:
    written = 0
    while written < len(data):
        written += os.pwrite(copy, data[written:], at + written)
    return written
