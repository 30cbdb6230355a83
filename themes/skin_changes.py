"""Tells skins that were edited since the last look, to reload one while it is being written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from themes.skin_file import SUFFIXES, is_name

Known = Mapping[str, tuple[int, int, int]]
"""Inode, size in bytes and time of change in nanoseconds, by file name."""


@dataclass(frozen=True, slots=True)
class SkinChanges:
    """One look at a folder of skins."""

    known: Known
    """To be handed to the next look."""
    changed: frozenset[str] = frozenset()
    """Names of skins whose file appeared, changed or went away."""


def changed(folder: Path, known: Known | None = None) -> SkinChanges:
    """Look at `folder` and compare with an earlier look; without one, nothing counts as changed.

    One `stat` per skin file; cheap enough for twice a second. A folder that is missing
    or unreadable counts as empty.
    """
    now = _snapshot(folder)
    if known is None:
        return SkinChanges(now)
    names = {name for name in now.keys() | known.keys() if now.get(name) != known.get(name)}
    return SkinChanges(now, frozenset(Path(name).stem for name in names))


def _snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                stem, suffix = os.path.splitext(entry.name)  # noqa: PTH122
                if suffix in SUFFIXES and is_name(stem):
                    try:
                        status = entry.stat()
                    except OSError:
                        # Gone between listing and looking, or a link to nothing.
                        continue
                    if S_ISREG(status.st_mode):
                        found[entry.name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    except OSError:
        return {}
    return found
