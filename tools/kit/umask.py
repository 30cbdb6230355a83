"""The umask of the user who started Hermes, and files made for the user.

Hermes' own files are private, so its processes work with 0077. Programs started for the user begin with the
user's umask. Files and folders made for the user get the mode that a program in the user's shell would give.
"""

from __future__ import annotations

import os
import stat

_PRIVATE = 0o077
_DEFAULT_ACL = "system.posix_acl_default"
_persons: int | None = None


def make_private() -> None:
    """Set the umask to 0077 and remember the previous one. Call it before any other code."""
    global _persons
    before = os.umask(_PRIVATE)
    if _persons is None:
        _persons = before


def person_umask() -> int:
    """Return the umask of the user who started this process."""
    if _persons is not None:
        return _persons
    now = os.umask(_PRIVATE)
    os.umask(now)
    return now


def forget_umask() -> None:
    """Forget the umask that `make_private` remembered. The umask of the process stays as it is."""
    global _persons
    _persons = None


def apply_user_mode(descriptor: int, folder: int) -> None:
    """Give a new file in `folder` the mode that a program in the user's shell would give it."""
    if not _has_own_rule(folder):
        os.fchmod(descriptor, 0o666 & ~person_umask())


def make_folder(name: str, *, dir_fd: int) -> None:
    """Make a folder with the mode that the user's `mkdir` would give it. Raises `OSError`."""
    os.mkdir(name, dir_fd=dir_fd)
    if _has_own_rule(dir_fd):
        return
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        # A folder may have taken the bit of its group from the one it lies in.
        special = stat.S_IMODE(os.fstat(made).st_mode) & ~0o777
        os.fchmod(made, special | (0o777 & ~person_umask()))
    finally:
        os.close(made)


def _has_own_rule(folder: int) -> bool:
    """Return whether a folder has an access list for new files in it, so that no umask applies."""
    if not hasattr(os, "listxattr"):
        return False
    try:
        # By its name below /proc, because the descriptor may be opened with O_PATH only.
        return _DEFAULT_ACL in os.listxattr(f"/proc/self/fd/{folder}")
    except OSError:
        return False
