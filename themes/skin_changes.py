"""Tells whether the file of a skin was edited since it was read, to read it again while it is written."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from themes.loader import SUFFIXES, is_name

SkinFileState = tuple[tuple[str, int, int, int], ...]
"""Suffix, inode, size in bytes and time of change in nanoseconds of each file a skin could be read from."""


def file_state(folder: Path, name: str) -> SkinFileState:
    """What the files of the skin called `name` in `folder` are now; empty where there are none.

    Taken before the skin is read, it differs from any later look that finds something else than what was
    read. One `stat` per suffix; cheap enough for twice a second. An unreadable folder counts as empty.
    """
    if not is_name(name):
        return ()
    found: list[tuple[str, int, int, int]] = []
    for suffix in SUFFIXES:
        try:
            status = (folder / f"{name}{suffix}").stat()
        except OSError:
            # There is none, or a link to nothing.
            continue
        if S_ISREG(status.st_mode):
            found.append((suffix, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
