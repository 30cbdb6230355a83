"""Finding which programs have which files below a folder open, mapped or locked.

Linux tells (`/proc`): of all processes of the same person, and of locks by whoever holds
them. Processes of others that cannot be looked at are counted, not guessed about. On other
systems nothing is found.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_PIECE = 4_000_000


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that a process has open or mapped."""

    process: int
    identity: tuple[int, int]
    """Device and inode: a process in a container knows the file by another path."""
    writes: bool
    reads: bool = True


@dataclass(slots=True)
class OpenFiles:
    """What processes other than this one have of a file system."""

    files: list[OpenFile] = field(default_factory=list)
    unseen: int = 0
    """Processes that cannot be looked at."""


def open_files(root: Path, *, maps: bool) -> OpenFiles:
    """Files of the file system of `root` that others have open; with `maps` those they map, too. Blocking.

    Where a process sees the same tree as we, only its files below `root` are in it.
    """
    found = OpenFiles()
    try:
        device = root.stat().st_dev
        ours = Path("/proc/self/ns/mnt").readlink()
        numbers = _processes()
    except OSError:
        return found
    below = f"{root}/"
    for number in numbers:
        if number == os.getpid():
            continue
        place = _PROC / str(number)
        try:
            same = (place / "ns/mnt").readlink() == ours
            with os.scandir(place / "fd") as entries:
                opened = [each.name for each in entries]
            mapped = _mapped(place, device, below if same else "") if maps else ()
            found.files += (OpenFile(number, each, writes=True) for each in mapped)
        except PermissionError:
            found.unseen += 1
            continue
        except OSError:
            continue
        for name in opened:
            with suppress(OSError, ValueError):
                target = os.readlink(f"/proc/{number}/fd/{name}")  # noqa: PTH115
                if not target.startswith(below if same else "/"):
                    continue
                status = (place / "fd" / name).stat()
                if status.st_dev == device and stat.S_ISREG(status.st_mode):
                    flags = _flags(place / "fdinfo" / name)
                    way = flags & os.O_ACCMODE
                    identity = (status.st_dev, status.st_ino)
                    found.files.append(OpenFile(number, identity, way != os.O_RDONLY, way != os.O_WRONLY))
    return found


def locks() -> dict[tuple[int, int], int]:
    """The process that holds a lock on a file, by device and inode; 0 where that is not told. Blocking."""
    found: dict[tuple[int, int], int] = {}
    with suppress(OSError):
        for line in (_PROC / "locks").read_text("ascii", "replace").splitlines():
            # `1: POSIX  ADVISORY  WRITE 4711 fe:00:2165 0 EOF`; `->` marks one that only waits for it.
            words = line.split()
            with suppress(ValueError, IndexError):
                if words[1] != "->" and words[1] != "LEASE" and int(words[4]) != os.getpid():
                    major, minor, inode = words[5].split(":")
                    device = os.makedev(int(major, 16), int(minor, 16))
                    found.setdefault((device, int(inode)), max(0, int(words[4])))
    return found


def is_alive(process: int) -> bool:
    """Whether there is a process of that number."""
    return process > 0 and (_PROC / str(process)).exists()


def working_in(folder: Path, programs: tuple[str, ...]) -> int:
    """The process of one of these programs that works in `folder` (resolved); 0 where there is none."""
    with suppress(OSError):
        for number in _processes() if programs else ():
            if _name(number) in programs:
                with suppress(OSError):
                    if (_PROC / str(number) / "cwd").samefile(folder):
                        return number
    return 0


def program(process: int) -> str:
    """A process as a person knows it: `redis-server (4711)`."""
    name = _name(process) if process else ""
    return f"{name} ({process})" if name else "another program"


def _processes() -> list[int]:
    with os.scandir(_PROC) as entries:
        return [int(each.name) for each in entries if each.name.isdecimal()]


def _name(process: int) -> str:
    try:
        return (_PROC / str(process) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _flags(path: Path) -> int:
    for line in path.read_bytes().splitlines():
        if line.startswith(b"flags:"):
            return int(line[6:], 8)
    return 0


def _mapped(place: Path, device: int, below: str) -> Iterator[tuple[int, int]]:
    """The files that a process maps, without those it only runs. Raises `OSError`."""
    with (place / "maps").open("rb") as file:
        data = file.read(_PIECE)
    wanted = b"%02x:%02x" % (os.major(device), os.minor(device))
    start = os.fsencode(below)
    seen: set[bytes] = set()
    for line in data.splitlines():
        words = line.split(None, 5)
        # Without a fixed path only what is shared counts: that is what databases do.
        if len(words) < 6 or words[3] != wanted or words[4] in seen or words[1][3:4] != b"s":
            continue
        if words[5].startswith(start):
            seen.add(words[4])
            yield device, int(words[4])
