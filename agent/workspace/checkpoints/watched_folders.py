"""Watches on the folders of a workspace, so that a scan need not read all of them (Linux).

Every folder that a scan reads gets a watch (inotify) before its names are listed. The next scan only reads
the folders that had an event since, and their new subfolders. The kernel queues an event before the system
call that caused it returns, so all changes by a program are known when it has ended. Where that is not
certain, `changed_folders` returns None and everything is read: after lost events, on file systems that other
machines change, with a mount in the workspace, with one folder at two paths, and after five minutes.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent.workspace.checkpoints.entries import LeftOut
from agent.workspace.checkpoints.units import UnitKind

log = logging.getLogger(__name__)

MOST = 20_000
SHARE = 4
"""Limits on watches: at most `MOST`, and at most the user's limit divided by `SHARE`."""
LASTS = 300.0
"""Seconds after which everything is read again, because a write to mapped memory causes no event."""
LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""File systems that other machines never change."""

_NEVER, _NOT_YET = -1, -2
"""Placeholders for the descriptor: watches are not available; they have not been tried yet."""
_IGNORED, _OVERFLOW, _UNMOUNT = 0x8000, 0x4000, 0x2000
_MASK = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x0100_0000
"""inotify(7): modify, attrib, close_write, moved_from, moved_to, create, delete, delete_self, move_self; only
folders.
"""
_EVENT = struct.Struct("iIII")
_PIECE = 1 << 16


class WatchedFolder(NamedTuple):
    """A folder that a scan has read."""

    identity: tuple[int, int]
    """Device and inode."""
    kind: UnitKind | None
    """The kind of unit that contains the folder. `cut` is the length of that unit's prefix."""
    cut: int
    watch: int


class WatchedFolders:
    """The folders of the workspace `root` (resolved) that the last scans read. For one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._add: Callable[[int, bytes, int], int] | None = None
        self._descriptor = _NOT_YET
        self._most = 0
        self.folders: dict[str, WatchedFolder] = {}
        self.left_out: list[LeftOut] = []
        self.units: dict[str, str] = {}
        self._paths: dict[int, str] = {}
        """Folders by their watch."""
        self._dirty: set[str] = set()
        self._whole_at = 0.0
        """The time of the last complete scan, on the monotonic clock; 0 if one is needed."""

    def close(self) -> None:
        """Release all watches. From now on everything is read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._whole_at = _NEVER, 0.0
        self._forget()

    def changed_folders(self) -> set[str] | None:
        """Return the folders that may have changed since they were read; None if that is unknown."""
        if not self._read_events() or time.monotonic() > self._whole_at + LASTS:
            self._whole_at = 0.0
        known = self._whole_at and "" in self.folders and len(self._dirty) <= len(self.folders) // 2
        return self._dirty & self.folders.keys() if known else None

    def start_scan(self) -> None:
        """Begin a complete scan, and drop what was recorded so far."""
        self._whole_at = 0.0
        self._forget()
        if self._descriptor == _NOT_YET:
            self._open()
        if self._descriptor >= 0 and not _is_watchable(self._root):
            self.close()

    def watch(self, folder: str, descriptor: int, kind: UnitKind | None, cut: int) -> None:
        """Watch an open folder; called before its names are read."""
        if self._descriptor < 0 or self._add is None:
            return
        # This path leads to the open folder, even if its name has changed by now.
        watch = self._add(self._descriptor, os.fsencode(f"/proc/self/fd/{descriptor}"), _MASK)
        if watch < 0 or len(self.folders) >= self._most:
            log.info("a look reads all folders: no watch for %r", folder)
            self.close()
            return
        status = os.fstat(descriptor)
        self.folders[folder] = WatchedFolder((status.st_dev, status.st_ino), kind, cut, watch)
        self._paths[watch] = folder

    def record(
        self, stays: Callable[[str], bool], units: Mapping[str, str], left_out: Collection[LeftOut]
    ) -> None:
        """Record the result of a scan, without the folders for which `stays` returns False."""
        for folder in [each for each in self.folders if not stays(each)]:
            del self.folders[folder]
        self._paths = {each.watch: folder for folder, each in self.folders.items()}
        self.units, self.left_out = dict(units), list(left_out)
        self._whole_at = self._whole_at or time.monotonic()
        if (
            self._descriptor < 0
            or len(self._paths) < len(self.folders)
            or any(not each.path for each in left_out)
        ):
            self._whole_at = 0.0

    def read_again(self, folders: Iterable[str]) -> None:
        """Make the next scan read exactly these folders, besides those with new events."""
        self._dirty = set(folders)

    def _open(self) -> None:
        self._descriptor = _NEVER
        try:
            self._add, start = _system()
            granted = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
        except (OSError, ValueError, AttributeError):
            return
        self._most = min(MOST, granted // SHARE)
        self._descriptor = max(_NEVER, start(os.O_NONBLOCK | os.O_CLOEXEC))

    def _read_events(self) -> bool:
        """Record the folders of all events so far; return whether no event was lost."""
        complete = self._descriptor >= 0
        with suppress(BlockingIOError):
            while complete and (data := os.read(self._descriptor, _PIECE)):
                at = 0
                while at < len(data):
                    watch, mask, _, size = _EVENT.unpack_from(data, at)
                    at += _EVENT.size + size
                    if mask & (_OVERFLOW | _UNMOUNT):
                        complete = False
                    elif watch in self._paths:
                        self._dirty.add(self._paths[watch])
                        if mask & _IGNORED:
                            del self._paths[watch]
        return complete

    def _forget(self) -> None:
        self.folders, self._paths, self._dirty = {}, {}, set()


def _system() -> tuple[Callable[[int, bytes, int], int], Callable[[int], int]]:
    """Return the system functions that add a watch and start inotify. Raises `AttributeError`, `OSError`."""
    library = ctypes.CDLL(None)
    add, start = library.inotify_add_watch, library.inotify_init1
    add.argtypes, start.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32], [ctypes.c_int]
    return add, start


def _is_watchable(root: Path) -> bool:
    """Return whether only this machine changes the file system of `root`, and nothing is mounted below it."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False
    kind, longest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), before.split(" ")[4])
        if Path(place) != root and Path(place).is_relative_to(root):
            return False
        if root.is_relative_to(place) and len(place) >= longest:
            kind, longest = after.split(" ", 1)[0], len(place)
    return kind in LOCAL
