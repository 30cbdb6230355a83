"""Leaving complete sets of files unchanged while a program uses them.

A database in use must be treated as a whole. A running server has most of its files open for reading only, or
not at all, but needs all of them unchanged. So the files stay unchanged if a program has one of them open for
writing, locked or mapped. The same applies to a folder in which a program writes several files as one set.
For a single log in use, only that file is left unchanged (see `path_replacement`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from agent.workspace.checkpoints.databases import DatabaseFinder, FolderKind, FoundDatabase, files_of
from agent.workspace.checkpoints.entries import LeftOut, PathKind
from agent.workspace.checkpoints.restore.path_replacement import Move, writer_state
from tools.text.safe_text import clean

_PROC = Path("/proc")
_PIECE = 4_000_000


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that a process has open or mapped."""

    process: int
    identity: tuple[int, int]
    """The device and inode, because a process in a container may know the file by another path."""
    writes: bool
    reads: bool = True


@dataclass(slots=True)
class OpenFiles:
    """The files on a file system that other processes use."""

    files: list[OpenFile] = field(default_factory=list)
    unseen: int = 0
    """The number of processes that cannot be examined."""


def open_files(root: Path, *, maps: bool) -> OpenFiles:
    """Return files on the file system of `root` that other processes have open or, with `maps`, mapped.

    For a process with the same mounts as this one, only files below `root` are included. Blocking.
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
    """Return the processes that hold locks, by device and inode of the file; 0 if unknown. Blocking."""
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
    """Return whether a process with that id exists."""
    return process > 0 and (_PROC / str(process)).exists()


def working_in(folder: Path, programs: tuple[str, ...]) -> int:
    """Return the id of a process of one of these programs whose current folder is `folder`; 0 if none."""
    with suppress(OSError):
        for number in _processes() if programs else ():
            if _name(number) in programs:
                with suppress(OSError):
                    if (_PROC / str(number) / "cwd").samefile(folder):
                        return number
    return 0


def program(process: int) -> str:
    """Return name and id of a process for the user: `redis-server (4711)`."""
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
    """Yield device and inode of files that a process maps and shares with others, below `below`. Raises
    `OSError`.
    """
    with (place / "maps").open("rb") as file:
        data = file.read(_PIECE)
    wanted = b"%02x:%02x" % (os.major(device), os.minor(device))
    start = os.fsencode(below)
    seen: set[bytes] = set()
    for line in data.splitlines():
        words = line.split(None, 5)
        # Without a fixed path only shared mappings count, which databases use.
        if len(words) < 6 or words[3] != wanted or words[4] in seen or words[1][3:4] != b"s":
            continue
        if words[5].startswith(start):
            seen.add(words[4])
            yield device, int(words[4])


Group = Callable[[str], str]
FOSSIL = "fossil"
IN_USE = "is a database ({kind}) that {who} has open; what was changed in it stays as a whole"
ONE_SET = "holds files that {who} writes as one set; what was changed in it stays as a whole"
UNSEEN = "whether a program of another user has the database {path} open could not be seen"


@dataclass(frozen=True, slots=True)
class Spared:
    """The part of a restore that can be carried out while programs run."""

    moves: tuple[Move, ...]
    skipped: tuple[LeftOut, ...]
    """The paths that stay unchanged, with one entry for a whole database or folder."""
    remarks: tuple[str, ...] = ()
    """Notes for the user about facts that could not be determined, each a clause."""
    databases: Mapping[str, str] = field(default_factory=dict)
    """The kinds of the affected databases, by path."""


def spare_used(root: Path, moves: Sequence[Move], skipped: Sequence[LeftOut], group: Group) -> Spared:
    """Return the moves without those of files that programs below `root` (resolved) use. Blocking.

    `skipped` are paths that are left unchanged anyway. If one of them belongs to a database, all of it is
    left. `group` returns the folder of the unit that a path is restored with; empty for none.
    """
    finder = DatabaseFinder(root, (each.path for each in (*moves, *skipped)))
    databases: dict[FoundDatabase, list[str]] = {}
    for move in moves:
        if (database := finder.of(move.path)) is not None:
            databases.setdefault(database, []).append(move.path)
    conflicts: dict[FoundDatabase, str] = {}
    rest: list[LeftOut] = []
    for item in skipped:
        database = finder.of(item.path)
        if database is None:
            rest.append(item)
        elif not database.is_passing(item.path):
            named = item.path[len(database.path) :].removeprefix("/")
            conflicts.setdefault(database, f"{item.reason} ({named})" if named else item.reason)
    opened = open_files(root, maps=bool(databases))
    by_file: dict[tuple[int, int], OpenFile] = {}
    for each in opened.files:
        if each.writes:
            by_file.setdefault(each.identity, each)
    held = locks() if databases or opened.files else {}
    remarks: list[str] = []
    staying: set[str] = set()
    for database in dict.fromkeys((*databases, *conflicts)):
        who, sure = _user(root, database, by_file, held, opened)
        name, unit = database.path or ".", group(database.path)
        if who is not None:
            rest.append(LeftOut(unit or name, IN_USE.format(kind=database.kind.name, who=program(who))))
        elif database in conflicts:
            along = _with(_along(root, database, databases, moves, group))
            rest.append(LeftOut(name, f"{conflicts[database]}{along}"))
        else:
            remarks += [] if sure else [UNSEEN.format(path=name)]
            continue
        staying.update(databases.get(database, ()))
        staying.update(_along(root, database, databases, moves, group))
    others = [move for move in moves if finder.of(move.path) is None]
    for folder, who in _sets(root, others, finder, opened.files, held).items():
        rest.append(LeftOut(folder, ONE_SET.format(who=program(who))))
        staying.update(move.path for move in moves if move.path.startswith(f"{folder}/"))
    kinds = {
        each.path or ".": FOSSIL if each.kind.name == FOSSIL else "database"
        for each in (*databases, *conflicts)
        if not group(each.path)
    }
    free = _without(moves, staying) if staying else tuple(moves)
    return Spared(free, tuple(rest), tuple(remarks), kinds)


def _along(
    root: Path,
    database: FoundDatabase,
    databases: Mapping[FoundDatabase, Sequence[str]],
    moves: Sequence[Move],
    group: Group,
) -> list[str]:
    """Return further paths that stay unchanged together with a database.

    They are those of its unit, or files of the same Fossil commits.
    """
    if unit := group(database.path):
        return [move.path for move in moves if group(move.path) == unit]
    if database.kind.name != FOSSIL:
        return []
    stores = {each: paths for each, paths in databases.items() if each.kind.name == FOSSIL}
    names = {path for each in (*stores, database) for path in _checked_out(root, each.path)}
    own = {path for paths in stores.values() for path in paths}
    return [move.path for move in moves if move.path in names or move.path in own]


def _checked_out(root: Path, path: str) -> set[str]:
    """Return the work tree files that a Fossil checkout lists; empty for any other file."""
    folder, _, name = path.rpartition("/")
    if name not in (".fslckout", "_FOSSIL_", ".fos"):
        return set()
    try:
        with closing(sqlite3.connect(f"{(root / path).as_uri()}?immutable=1", uri=True)) as base:
            base.execute("pragma trusted_schema = off")
            names = [str(row[0]) for row in base.execute("select pathname from vfile limit 1000000")]
    except (sqlite3.Error, ValueError):
        return set()
    return {f"{folder}/{each}" if folder else each for each in names}


def _with(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return f", and with it {', '.join(map(clean, paths[:3]))}{more}"


def _user(
    root: Path,
    database: FoundDatabase,
    by_file: Mapping[tuple[int, int], OpenFile],
    held: Mapping[tuple[int, int], int],
    opened: OpenFiles,
) -> tuple[int | None, bool]:
    """Return the id of the process that uses a database, and whether that is certain.

    The id is 0 if the process is unknown, None if none uses it.
    """
    kind = database.kind
    if isinstance(kind, FolderKind) and (found := working_in(root / database.path, kind.programs)):
        return found, True
    sure = True
    written = None
    for folder, name, path in files_of(root, database):
        with suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            identity = (status.st_dev, status.st_ino)
            if identity in by_file:
                return by_file[identity].process, True
            if identity in held:
                return held[identity], True
            if isinstance(kind, FolderKind) and _is_named(kind, database, path):
                process = _first_number(root / path)
                if is_alive(process):
                    return process, True
            state = writer_state(folder, name) if written is None else False
            written = 0 if state else written
            sure = sure and (state is not None or not opened.unseen)
    return written, sure


def _is_named(kind: FolderKind, database: FoundDatabase, path: str) -> bool:
    rest = path.removeprefix(f"{database.path}/")
    return any(fnmatchcase(rest, pattern) for pattern in kind.process)


def _first_number(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_bytes()[:20].split()[0])
    return 0


def _sets(
    root: Path,
    moves: Iterable[Move],
    finder: DatabaseFinder,
    opened: Sequence[OpenFile],
    held: Mapping[tuple[int, int], int],
) -> dict[str, int]:
    """Return folders in which one process writes several files as one set, outside known databases, with its
    id.

    Such a set is recognised by two files that the process writes, one of which it also reads or has locked. A
    file that is only written is a log. The workspace itself is never such a folder.
    """
    writing: dict[tuple[int, int], list[OpenFile]] = {}
    for each in opened:
        if each.writes:
            writing.setdefault(each.identity, []).append(each)
    found: dict[str, int] = {}
    for folder in sorted({move.parent for move in moves} - {""}) if writing else ():
        if any(folder.startswith(f"{each}/") for each in found):
            continue
        counted: dict[int, list[bool]] = {}
        for identity, path in _identities(root / folder, folder):
            if identity in writing and finder.of(path) is None:
                for each in {each.process: each for each in writing[identity]}.values():
                    counted.setdefault(each.process, []).append(each.reads or identity in held)
        for process, firm in counted.items():
            if len(firm) > 1 and any(firm):
                found[folder] = process
                break
    return found


def _identities(place: Path, folder: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield device and inode, and the path, of each regular file in a folder."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield (status.st_dev, status.st_ino), f"{folder}/{entry.name}"


def _without(moves: Sequence[Move], staying: set[str]) -> tuple[Move, ...]:
    """Return the moves without paths that stay unchanged, and without removals of folders above them."""
    above = {path[:cut] for path in staying for cut in range(len(path)) if path[cut] == "/"}
    return tuple(
        move
        for move in moves
        if move.path not in staying
        and not (
            move.path in above
            and move.now is not None
            and (move.wanted is None or move.wanted.kind is not PathKind.FOLDER)
        )
    )
