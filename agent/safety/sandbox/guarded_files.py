"""Guarded places that stand in a writable folder: the boundary lays them read-only for programs.

Which names are guarded says `agent.safety.guarded`, the list of the file tools. Names at which nothing
stands cannot be covered without leaving something in the person's project; what a program makes there
is taken away after the call (`agent.session.turns.guarded_changes`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.safety.guarded import known_name, led_to
from agent.safety.reader.marks import words

_DEPTH = 2
"""Folders below the top down to which is looked."""
_FOLDERS = 64
"""Folders that are looked into, those near the top first."""
_MOST = 24
"""Places that are covered, those near the top first: each costs the start of a command a mount."""
_UNINTERESTING = words(".hg .svn node_modules .venv venv __pycache__ target dist build .tox .mypy_cache")
_PROGRAMS = {".git": words("hooks config"), ".yarn": words("releases plugins")}
"""Folders that tools write into every day, with what of them runs."""


@dataclass(frozen=True, slots=True)
class GuardedFiles:
    """What is covered below one folder."""

    read_only: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    """Folders above them that stay writable but cannot be renamed: one put in their place would be open."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """What a folder held when it was last read."""

    read_at: tuple[int, int, int]
    """Inode, and the times of the last change of content and of status, in nanoseconds."""
    guarded: tuple[str, ...]
    folders: tuple[str, ...]


class GuardedFinder:
    """Finds guarded places below a folder (resolved). Folders that did not change are not read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, _Folder] = {}

    def find(self) -> GuardedFiles:
        """What stands there now. Looks at some 60 folders; those that cannot be read have nothing in them."""
        found: list[str] = []
        known: dict[str, _Folder] = {}
        queue = [("", 0)]
        for place, depth in queue:
            folder = self._folder(place)
            if folder is None:
                continue
            known[place] = folder
            found += folder.guarded
            if depth < _DEPTH:
                queue += [(name, depth + 1) for name in folder.folders[: _FOLDERS - len(queue)]]
        self._read = known
        shown = found[:_MOST]
        above = dict.fromkeys(name.rpartition("/")[0] for name in shown)
        pinned = [name for name in above if name.rpartition("/")[2].startswith(".")]
        # A name that is a link brings what it leads to; a folder around that put in its place would be open.
        led = [Path(each) for each in led_to(self._root)]
        led = [each for each in led if each.is_relative_to(self._root) and each.exists()]
        around = [each.parent for each in led if each.parent != self._root]
        return GuardedFiles(
            tuple(dict.fromkeys((*(self._root / each for each in shown), *led))),
            tuple(dict.fromkeys((*(self._root / each for each in pinned), *around))),
        )

    def _folder(self, place: str) -> _Folder | None:
        path = self._root / place
        try:
            status = path.stat(follow_symlinks=False)
            read_at = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            known = self._read.get(place)
            return known if known is not None and known.read_at == read_at else _look(path, place, read_at)
        except OSError:
            return None


def _look(path: Path, place: str, read_at: tuple[int, int, int]) -> _Folder:
    guarded: list[str] = []
    folders: list[str] = []
    inside = f"{place}/" if place else ""
    programs = _PROGRAMS.get(path.name)
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            name = f"{inside}{entry.name}"
            if entry.is_symlink():
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if programs is not None:
                guarded += [name] if entry.name in programs else []
            elif entry.name in _PROGRAMS:
                # The repository of the workspace itself is covered with more care; see `repository`.
                folders += [name] if is_folder and (place or entry.name != ".git") else []
            elif known_name(name) is not None:
                guarded.append(name)
            elif is_folder and entry.name not in _UNINTERESTING:
                folders.append(name)
    return _Folder(read_at, tuple(guarded), tuple(folders))


def found_in(finders: Sequence[GuardedFinder]) -> GuardedFiles:
    """What is covered in several folders."""
    each = [finder.find() for finder in finders]
    return GuardedFiles(
        tuple(path for files in each for path in files.read_only),
        tuple(path for files in each for path in files.pinned),
    )
