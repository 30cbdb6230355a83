"""Everything below a workspace as it was last seen, and what a look at all of it finds changed.

A look costs one `stat` for each path and reads no file. A path counts as changed
when its stamp is another one, or was taken so soon after a write that a further
write could have left the same.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agent.workspace.checkpoints.entries import Entry, LeftOut

TICK = 50_000_000
"""Nanoseconds within which two writes may leave the same time on a file."""

Stamp = tuple[int, ...]


class Known(NamedTuple):
    """A path as it was last seen. A named tuple: a workspace has many."""

    stamp: Stamp
    settled: bool
    """Whether a later change is sure to leave another stamp."""
    entry: Entry | None
    """How it stood; None while it was not read yet."""
    blob: str = ""
    """The id of the git object with exactly these bytes; then `entry` may lack a digest."""

    @property
    def is_read(self) -> bool:
        return self.entry is not None


@dataclass(slots=True)
class Look:
    """What a look at a whole workspace found."""

    changed: dict[str, os.stat_result] = field(default_factory=dict)
    """Paths that are new or have another stamp."""
    gone: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    """Folders that were not entered."""
    linked: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    """Paths of files with several names, by device and inode."""
    seen: int = 0

    def twin(self, path: str, status: os.stat_result) -> str:
        """Another path of the same file, if there is one in the workspace."""
        names = self.linked.get((status.st_dev, status.st_ino), ())
        return next((name for name in names if name != path), "")


def stamp_of(status: os.stat_result) -> Stamp:
    """What tells a changed path from one that is as it was. Pure."""
    if stat.S_ISDIR(status.st_mode):
        # What is in a folder is looked at for itself.
        return (status.st_mode,)
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(status: os.stat_result, now: int | None = None) -> bool:
    """Whether a write from now on leaves another stamp. `now` is in nanoseconds since the epoch."""
    now = time.time_ns() if now is None else now
    return max(status.st_mtime_ns, status.st_ctime_ns) < now - TICK


def look(root: Path, known: dict[str, Known]) -> Look:
    """Compare everything below `root` (resolved) with what is known. Blocking; never raises."""
    found = Look()
    names: set[str] = set()
    for path, status in _walk(root, found):
        names.add(path)
        before = known.get(path)
        if before is None or not (before.settled and before.is_read) or before.stamp != stamp_of(status):
            found.changed[path] = status
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            found.linked.setdefault((status.st_dev, status.st_ino), []).append(path)
    hidden = tuple(f"{item.path}/" for item in found.left_out)
    found.gone = [path for path in known if path not in names and not (hidden and path.startswith(hidden))]
    found.seen = len(names)
    return found


def _walk(root: Path, found: Look) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below `root` with its status; no link is followed, no other file system entered."""
    try:
        top = root.stat()
    except OSError:
        return
    waiting: list[tuple[str, os.stat_result]] = [("", top)]
    while waiting:
        folder, expected = waiting.pop()
        prefix = f"{folder}/" if folder else ""
        try:
            descriptor = os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                found.left_out.append(LeftOut(folder, f"cannot be read: {(error.strerror or '').lower()}"))
            continue
        try:
            # Between listing and opening a folder above may have become a link.
            if not os.path.samestat(os.fstat(descriptor), expected):
                continue
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    path = prefix + entry.name
                    if not stat.S_ISDIR(status.st_mode):
                        if entry.name.casefold() != ".git":
                            yield path, status
                        continue
                    reason = _closed(entry.name, status, top)
                    if reason:
                        found.left_out.append(LeftOut(path, reason))
                    else:
                        yield path, status
                        waiting.append((path, status))
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _closed(name: str, status: os.stat_result, top: os.stat_result) -> str:
    if name.casefold() == ".git":
        return "belongs to git"
    return "lies on another file system" if status.st_dev != top.st_dev else ""
