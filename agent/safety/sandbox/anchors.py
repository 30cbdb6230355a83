"""Opening what is to be writable before it is mounted: a link put there meanwhile leads nowhere.

A mount takes a path, or something opened in its own view. So who mounts takes the path, and compares what
it got with what was opened here without following links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.safety.sandbox.layout import MountPlace
from tools.kit.files import open_folder


def anchored(view: Sequence[MountPlace]) -> dict[Path, int]:
    """A descriptor for each place that is written where it lies, by its path.

    Raises `OSError` when any part of a path has become a link.
    """
    held: dict[Path, int] = {}
    try:
        for place in view:
            if place.kind == "write" and place.path == place.source:
                held[place.path] = _opened(place.path)
    except OSError:
        for descriptor in held.values():
            os.close(descriptor)
        raise
    return held


def identities(anchors: Mapping[Path, int]) -> dict[str, tuple[int, int]]:
    """Device and inode of what was opened, by its path. Closes the descriptors."""
    found: dict[str, tuple[int, int]] = {}
    for path, descriptor in anchors.items():
        status = os.fstat(descriptor)
        os.close(descriptor)
        found[str(path)] = (status.st_dev, status.st_ino)
    return found


def _opened(path: Path) -> int:
    with open_folder(path.parent) as folder:
        name = path.name or "."
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ELOOP, "a link has taken the place of a folder", str(path))
    return descriptor
