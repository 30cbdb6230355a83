"""Replacing a file in an open folder without losing the file that is at its path.

Two names are exchanged in one system call (`renameat2` on Linux, `renameatx_np` on macOS). So the file that
was at the path at that moment still exists under the other name and can be checked. If the file system cannot
do that, the old file gets a second name first; only a file that another program renames onto the path at that
moment can be missed then.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_EXCHANGE_LINUX, _EXCHANGE_MACOS = 2, 2
_NO_REPLACE_LINUX, _NO_REPLACE_MACOS = 1, 4
_HERE = -1
"""An invalid folder descriptor, with which paths must be absolute."""
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)

_Rename = Callable[[int, bytes, int, bytes, int], int]


@cache
def _system() -> tuple[_Rename, int, int] | None:
    """Return the system's rename function, its flag for exchanging and its flag for not replacing.

    Returns None if the system has no such function.
    """
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    if name is None:
        return None
    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    if sys.platform == "darwin":
        return call, _EXCHANGE_MACOS, _NO_REPLACE_MACOS
    return call, _EXCHANGE_LINUX, _NO_REPLACE_LINUX


def exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names in a folder. Afterwards `one` holds what was at `other`.

    Returns whether that was one step; otherwise `one` is a second name of the old file and `other` was
    replaced. Raises `OSError`; `FileNotFoundError` if one of the two is missing.
    """
    if _renamed(folder, one, other, exchange=True):
        return True
    beside = f"{one}~"
    os.link(other, beside, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    os.rename(one, other, src_dir_fd=folder, dst_dir_fd=folder)
    os.rename(beside, one, src_dir_fd=folder, dst_dir_fd=folder)
    return False


def move_new(folder: int, source: str, target: str) -> None:
    """Rename within a folder to a free name. Raises `FileExistsError` if it is taken, and `OSError`."""
    if _renamed(folder, source, target, exchange=False):
        return
    os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(source, dir_fd=folder)


def move_free(source: Path, target: Path) -> None:
    """Rename a file or folder to a free path of the same file system, even if something is mounted on it.

    Raises `FileExistsError` if that is taken, and `OSError`.
    """
    if not _renamed(_HERE, str(source), str(target), exchange=False):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(target))


def _renamed(folder: int, source: str, target: str, *, exchange: bool) -> bool:
    """Rename with a flag; False if system or file system lacks it. Raises `OSError`."""
    system = _system()
    if system is None:
        return False
    call, exchanging, not_replacing = system
    flag = exchanging if exchange else not_replacing
    if call(folder, os.fsencode(source), folder, os.fsencode(target), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), target)
