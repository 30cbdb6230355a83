"""Recognition of databases in a workspace by their contents: folders, and files with companion files.

The files of one database are restored together or not at all, because a part of them would be a database
state that never existed. The kinds of databases are listed in `databases.yaml`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("databases.yaml")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_HEAD = 100


@dataclass(frozen=True, slots=True)
class Magic:
    """The bytes that a file must have at a given offset."""

    offset: int
    data: bytes

    def fits(self, head: bytes) -> bool:
        """Return whether a file that begins with `head` has these bytes."""
        return head[self.offset : self.offset + len(self.data)] == self.data


@dataclass(frozen=True, slots=True)
class FolderKind:
    """A kind of database that consists of a folder."""

    name: str
    has: tuple[str, ...]
    """Patterns, each of which must match a name in the folder."""
    magic: tuple[tuple[str, Magic], ...] = ()
    only: tuple[str, ...] = ()
    """Patterns of the names that belong to it; if there are none, all do."""
    process: tuple[str, ...] = ()
    """Patterns of files that begin with the id of the process using it."""
    programs: tuple[str, ...] = ()
    """The programs that use it when their current folder is this folder."""
    passing: tuple[str, ...] = ()
    """Patterns of names of files that reading rewrites and nothing depends on."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of database that consists of a file and companion files."""

    name: str
    magic: Magic
    beside: tuple[str, ...]
    passing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundDatabase:
    """One database in the workspace."""

    path: str
    """The path of its folder or main file; empty for the workspace itself."""
    kind: FolderKind | FileKind

    def owns(self, path: str) -> bool:
        """Return whether a path belongs to this database."""
        if isinstance(self.kind, FileKind):
            return any(path == each or path.startswith(f"{each}/") for each in self.names())
        if not path.startswith(f"{self.path}/" if self.path else ""):
            return False
        first = path[len(self.path) + bool(self.path) :].partition("/")[0]
        return not self.kind.only or any(fnmatchcase(first, each) for each in self.kind.only)

    def is_passing(self, path: str) -> bool:
        """Return whether a file of the database is rewritten by mere reading, and nothing depends on it."""
        rest = path[len(self.path) :].removeprefix("/").partition("/")[0]
        return any(fnmatchcase(rest, each) for each in self.kind.passing)

    def names(self) -> tuple[str, ...]:
        """Return the paths by which the database is recognised."""
        if isinstance(self.kind, FileKind):
            return (self.path, *(self.path + each for each in self.kind.beside))
        return (self.path,)


class DatabaseFinder:
    """A search for the database that a path of the workspace `root` belongs to.

    `known` are paths that count as existing, such as those to be restored. Results are cached, so use a new
    finder when files may have changed. Blocking; never raises.
    """

    def __init__(self, root: Path, known: Iterable[str] = ()) -> None:
        self._root = root
        self._listed: dict[str, frozenset[str]] = {}
        self._folders: dict[str, tuple[FoundDatabase, ...]] = {}
        self._heads: dict[str, bytes] = {}
        self._known: dict[str, set[str]] = {}
        for path in known:
            while path:
                folder, _, name = path.rpartition("/")
                below = self._known.setdefault(folder, set())
                if name in below:
                    break
                below.add(name)
                path = folder

    def of(self, path: str) -> FoundDatabase | None:
        """Return the outermost database that contains a path; None if there is none."""
        parts = path.split("/")
        for count in range(len(parts)):
            for found in self._in("/".join(parts[:count])):
                if found.owns(path):
                    return found
        return self._around(path, parts)

    def _in(self, folder: str) -> tuple[FoundDatabase, ...]:
        """Return the databases that a folder is, one for each matching kind, judged by its contents."""
        if folder not in self._folders:
            names = self._names(folder)
            kinds = (kind for kind in database_kinds()[0] if self._fits(kind, folder, names))
            self._folders[folder] = tuple(FoundDatabase(folder, kind) for kind in kinds)
        return self._folders[folder]

    def _fits(self, kind: FolderKind, folder: str, names: frozenset[str]) -> bool:
        if not all(_has(names, pattern) for pattern in kind.has):
            return False
        heads = ((_head(self._root / folder / name), magic) for name, magic in kind.magic)
        return all(not head or magic.fits(head) for head, magic in heads)

    def _around(self, path: str, parts: Sequence[str]) -> FoundDatabase | None:
        """Return the database with this main or companion file, or a folder around the path; or None."""
        files = database_kinds()[1]
        for count in range(len(parts), 0, -1):
            folder, name = "/".join(parts[: count - 1]), parts[count - 1]
            names = self._names(folder)
            for kind in files:
                for ending in ("", *kind.beside):
                    if not name.endswith(ending):
                        continue
                    base = name.removesuffix(ending)
                    if not base or base not in names:
                        continue
                    above = f"{folder}/{base}" if folder else base
                    head = self._head(above)
                    # An empty or missing one is recognised by its companion files.
                    if kind.magic.fits(head) or (
                        not head and any(base + each in names for each in kind.beside)
                    ):
                        return FoundDatabase(above, kind)
        return None

    def _head(self, path: str) -> bytes:
        if path not in self._heads:
            self._heads[path] = _head(self._root / path)
        return self._heads[path]

    def _names(self, folder: str) -> frozenset[str]:
        if folder not in self._listed:
            there: frozenset[str]
            try:
                with os.scandir(self._root / folder) as entries:
                    there = frozenset(each.name for each in entries)
            except OSError:
                there = frozenset()
            self._listed[folder] = there | self._known.get(folder, set())
        return self._listed[folder]


def files_of(root: Path, database: FoundDatabase) -> Iterator[tuple[int, str, str]]:
    """Yield every regular file of a database: a descriptor of its folder, its name and its path. Blocking.

    The descriptor is valid until the next item. Links are not followed.
    """
    top = database.path.rpartition("/")[0] if isinstance(database.kind, FileKind) else database.path
    if not (root / top).is_dir():
        # A step removed it, so no program uses it.
        return
    for place, folders, names, descriptor in os.fwalk(root / top):
        prefix = os.path.relpath(place, root)
        prefix = "" if prefix == "." else f"{prefix}/"
        folders[:] = [each for each in folders if database.owns(prefix + each)]
        for name in names:
            if database.owns(prefix + name):
                yield descriptor, name, prefix + name


@cache
def database_kinds() -> tuple[tuple[FolderKind, ...], tuple[FileKind, ...]]:
    """Return the kinds of databases that are folders, and those that are files. The table is read once."""
    from tools.kit.yaml_text import load_table

    data: Mapping[str, Any] = load_table(_FILE)
    folders = tuple(
        FolderKind(
            each["name"],
            tuple(each["has"]),
            tuple((name, _magic(place)) for name, place in each.get("magic", {}).items()),
            *(tuple(each.get(key, ())) for key in ("only", "process", "programs", "passing")),
        )
        for each in data["folders"]
    )
    files = tuple(
        FileKind(each["name"], _magic(each["magic"]), tuple(each["beside"]), tuple(each.get("passing", ())))
        for each in data["files"]
    )
    return folders, files


def _magic(place: Sequence[Any]) -> Magic:
    offset, digits = place
    return Magic(int(offset), bytes.fromhex(str(digits)))


def _has(names: frozenset[str], pattern: str) -> bool:
    # Most patterns are names, and most folders have none of these.
    if "*" not in pattern:
        return pattern in names
    start, _, end = pattern.partition("*")
    return any(name.startswith(start) and name.endswith(end) for name in names)


def _head(path: Path) -> bytes:
    """Return the first 100 bytes of a regular file; empty if it cannot be read."""
    try:
        descriptor = os.open(path, _READ)
        try:
            return os.pread(descriptor, _HEAD, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        finally:
            os.close(descriptor)
    except OSError:
        return b""
