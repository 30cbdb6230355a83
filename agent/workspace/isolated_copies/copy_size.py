"""The size of a copy, and what stays behind where all of it would take too much. Blocking."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import LeftOut
from agent.workspace.ignore import IgnoreFiles
from agent.workspace.isolated_copies.file_copy import cloned
from tools.kit.files import create_file

MEGABYTE = 1_000_000
_SPARE = 500 * MEGABYTE
"""Bytes of the disk that a copy leaves free."""
_LOOKED_AT = 200
"""Files that are tried at most to find out whether the file system shares blocks."""


def clones(source: Path, target: Path) -> bool:
    """Whether a file of `source` can share its blocks with one in the folder `target`: found out by doing."""
    tried = 0
    beside = target / "clone"
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder, name)
            tried += 1
            if tried > _LOOKED_AT:
                return False
            try:
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode) or not status.st_size:
                    continue
                origin = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                copy = create_file(beside)
                try:
                    return cloned(origin, copy)
                finally:
                    os.close(copy)
                    beside.unlink()
            finally:
                os.close(origin)
    return False


@dataclass(slots=True)
class _Sizes:
    total: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    """Bytes of the outermost folders that git ignores."""


def too_much(source: Path, target: Path, most: int) -> tuple[LeftOut, ...]:
    """What of `source` is not copied, so that the rest has at most `most` bytes.

    Only folders that git ignores stay behind, the largest first. Raises `HermesError` when
    that is not enough, or the disk of `target` has no room.
    """
    sizes = _measured(source)
    left: list[LeftOut] = []
    free = max(0, shutil.disk_usage(target).free - _SPARE)
    most = min(most, free)
    for path, size in sorted(sizes.ignored.items(), key=lambda item: -item[1]):
        if sizes.total <= most:
            break
        sizes.total -= size
        left.append(LeftOut(path, f"is ignored by git and has {size // MEGABYTE:,} MB"))
    if sizes.total > most:
        where = f"the disk of {target} has room for {most // MEGABYTE:,} MB"
        limit = f"copies may have {most // MEGABYTE:,} MB"
        raise HermesError(
            f"A copy of {source} would have {sizes.total // MEGABYTE:,} MB, but "
            f"{where if most == free else limit}; free some room, or let git ignore what is not needed."
        )
    return tuple(sorted(left, key=lambda item: item.path))


def _measured(source: Path) -> _Sizes:
    sizes = _Sizes()
    ignore = IgnoreFiles(source)
    waiting: list[tuple[str, str]] = [("", "")]
    while waiting:
        folder, counted = waiting.pop()
        try:
            with os.scandir(source / folder) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                size = status.st_blocks * 512
                sizes.total += size
                if counted:
                    sizes.ignored[counted] += size
            elif stat.S_ISDIR(status.st_mode) and entry.name != ".git":
                below = counted
                if not below and ignore.skips(path, folder=True):
                    below = path
                    sizes.ignored[path] = 0
                waiting.append((path, below))
    return sizes
