"""Detection of edits to a skin file, so that it is reloaded while being written."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from themes.loader import SUFFIXES, is_name

SkinFileState = tuple[tuple[str, int, int, int], ...]
"""Suffix, inode, size in bytes and time of change in nanoseconds of each file a skin could be read from."""


def file_state(folder: Path, name: str) -> SkinFileState:
    """Return the state of the files of the skin `name` in `folder`; empty if there are none.

    Take the state before reading the skin; a later state differs if the files have changed since. It costs
    one `stat` per suffix, cheap enough for twice a second. An unreadable folder counts as empty.
    """
    if not is_name(name):
        return ()
    found: list[tuple[str, int, int, int]] = []
    for suffix in SUFFIXES:
        try:
            status = (folder / f"{name}{suffix}").stat()
        except OSError:
            # No such file, or a broken link.
            continue
        if S_ISREG(status.st_mode):
            found.append((suffix, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
