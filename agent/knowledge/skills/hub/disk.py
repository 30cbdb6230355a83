"""The files of an installed skill as they are on the disk now."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from agent.core.home import PRIVATE_FOLDER
from agent.knowledge.skills.hub.bundle import WIDE, SkillFile
from agent.knowledge.skills.hub.problems import HubError
from tools.kit.files import write_new
from tools.text.words import brief

MOST_FILES = WIDE.files * 2
MOST_BYTES = WIDE.total * 2
NOT_PLAIN = "not a plain file"
"""Stands in place of the hash of a link or a device."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OF_THE_DESKTOP = frozenset({".DS_Store"})
"""Files that a file manager leaves and nothing reads as part of a skill."""

Signature = tuple[tuple[str, int, int, int, int], ...]


def signature(folder: Path) -> Signature:
    """What changes when a file changes: path, times, size and number of each. Raises `HubError`."""
    return tuple(
        (name, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        for name, status in _files(folder)
    )


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file by its path below `folder`. Raises `HubError` for what cannot be read."""
    found: dict[str, str] = {}
    for name, status in _files(folder):
        if stat.S_ISREG(status.st_mode):
            found[name] = hashlib.sha256(_content(folder, name)).hexdigest()
        else:
            found[name] = NOT_PLAIN
    return found


def read_files(folder: Path) -> tuple[SkillFile, ...]:
    """All files with their contents. Raises `HubError`, also for links."""
    found = []
    for name, status in _files(folder):
        if not stat.S_ISREG(status.st_mode):
            raise HubError(f"{brief(name)} in {brief(folder, 200)} is {NOT_PLAIN}.")
        executable = bool(status.st_mode & 0o111)
        found.append(SkillFile(name, _content(folder, name), executable=executable))
    return tuple(found)


def write_files(folder: Path, files: Iterable[SkillFile]) -> None:
    """Write checked files into a new private folder. Raises `HubError`."""
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True)
        for file in files:
            path = folder / file.path
            path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            write_new(path, file.content, 0o700 if file.executable else 0o600, durable=True)
    except OSError as error:
        raise HubError(f"{brief(folder, 200)} cannot be written: {error.strerror or error}.") from None


def _files(folder: Path) -> list[tuple[str, os.stat_result]]:
    """All that is no folder, in the order of the paths."""
    found: list[tuple[str, os.stat_result]] = []
    total = 0
    waiting = [folder]
    try:
        while waiting:
            here = waiting.pop()
            with os.scandir(here) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(Path(entry.path))
                    elif entry.name not in _OF_THE_DESKTOP:
                        found.append((Path(entry.path).relative_to(folder).as_posix(), status))
                        total += status.st_size
                    if len(found) + len(waiting) > MOST_FILES or total > MOST_BYTES:
                        raise HubError(f"{brief(folder, 200)} has more files than a skill can have.")
    except OSError as error:
        raise HubError(f"{brief(folder, 200)} cannot be read: {error.strerror or error}.") from None
    return sorted(found, key=lambda each: each[0])


def _content(folder: Path, name: str) -> bytes:
    try:
        descriptor = os.open(folder / name, _READ)
        with os.fdopen(descriptor, "rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise HubError(f"{brief(name)} cannot be read: {error.strerror or error}.") from None
    if len(content) > MOST_BYTES:
        raise HubError(f"{brief(name)} is larger than a skill can be.")
    return content
