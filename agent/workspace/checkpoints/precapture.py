"""Reading and storing the contents of files, of whole workspaces and of git's objects.

Files whose contents git has are only compared with git's data, and not stored again. Everything else is
stored, users' work first.

Reading the state of a path in the workspace, safely and exactly. A path is opened folder by folder without
following links, so it never leads out of the workspace. Only plain files are opened. A file that changes
during reading is read again. If it keeps changing, that is reported, and nothing is stored.

Contents of git objects, read through the one way to run git. A command may delete `.git`, or make git remove
objects. They have hard links in a folder of Hermes (`git_keep`), from which they can still be read and
restored.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from agent.errors import HermesError, StoreError
from agent.workspace.checkpoints.entries import (
    NO_UNITS,
    TOP,
    KnownPath,
    LeftOut,
    PathEntry,
    PathKind,
    Units,
    is_settled,
    stamp_of,
    unreadable,
)
from agent.workspace.checkpoints.git_index import Index, blob_id
from agent.workspace.checkpoints.git_keep import GitKeep
from agent.workspace.checkpoints.objects import CHUNK, ObjectStore
from agent.workspace.git import GitError, common_folder, git_folder, run_git, top_folder
from agent.workspace.ignore import is_noise
from agent.workspace.project_tree import in_order
from tools.kit.files import open_folder, read_bytes

ATTEMPTS = 3
"""How often a file that keeps changing is read."""
SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time certainly reveals a later change, on any file system."""

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: what became a pipe after it was looked at must not hold us.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_AT_ONCE = 1_000_000
_ATTRIBUTES = ("system.posix_acl", "security.capability", "user.")


class _ChangedError(Exception):
    """The file changed while it was read."""


def take(
    root: Path,
    path: str,
    objects: ObjectStore | None,
    *,
    limit: int,
    known: PathEntry | None = None,
    link: bool = False,
) -> PathEntry | None:
    """Return the current state of `path` (relative to the resolved folder `root`, with `/`); None if missing.

    An absolute path (resolved) is used unchanged, and `.` is the folder `root`: see `entries.PathChange`.
    Contents are added to `objects`; without it they are only hashed. A file above `limit` bytes, or one that
    is unreadable or keeps changing, has a reason instead of a digest.

    A file with the size, mode and time of `known` is not read again. It is read anyway if it changed within
    the last seconds, or if its contents are not in `objects`. A caller that knows more (the inode, the change
    time) uses that to decide whether to pass `known`. With `link` contents are kept by a hard link if
    possible, whatever their size.

    Blocks. Raises `StoreError` if contents cannot be stored, or for a path that leads out of the workspace.
    """
    if path.startswith("/"):
        root, path = Path(path).parent, Path(path).name
    parts = [] if path == TOP else _parts(path)
    try:
        with open_folder(root) as top:
            if not parts:
                return _plain(os.fstat(top), PathKind.FOLDER)
            return _below(top, parts, objects, limit, known, link)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        return PathEntry(PathKind.OTHER, 0, reason=unreadable(error))


def inode_of(status: os.stat_result) -> str:
    """Return a text that identifies a file with several names; empty for anything else. Pure."""
    return str(status.st_ino) if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else ""


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise StoreError(f"{path[:200]!r} is not a path inside a workspace.")
    return parts


def _below(
    top: int,
    parts: list[str],
    objects: ObjectStore | None,
    limit: int,
    known: PathEntry | None,
    link: bool,
) -> PathEntry | None:
    """Open the folder that contains the path and read the path's state. Raises `OSError`."""
    reason = ""
    device = os.fstat(top).st_dev
    folder = os.dup(top)
    try:
        for name in parts[:-1]:
            below = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        if os.fstat(folder).st_dev != device:
            reason = "is on another file system"
        attempts = ATTEMPTS
        while True:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_dev != device:
                reason = "is on another file system"
            if reason:
                return _plain(status, PathKind.OTHER, reason=reason)
            try:
                entry = _entry(folder, parts[-1], status, objects, limit, known, link)
                inode = inode_of(status)
                return entry if entry.inode == inode else replace(entry, inode=inode)
            except _ChangedError:
                attempts -= 1
                if not attempts:
                    return _plain(status, PathKind.FILE, reason="changed while it was read")
    finally:
        os.close(folder)


def _entry(
    folder: int,
    name: str,
    status: os.stat_result,
    objects: ObjectStore | None,
    limit: int,
    known: PathEntry | None,
    link: bool,
) -> PathEntry:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return _link(folder, name, status)
    if stat.S_ISDIR(mode):
        return _plain(status, PathKind.FOLDER)
    if not stat.S_ISREG(mode):
        return _plain(status, PathKind.OTHER, reason=_special(mode))
    if link and objects is not None and (digest := _linked(folder, name, status, objects)):
        return PathEntry(PathKind.FILE, stat.S_IMODE(mode), status.st_size, status.st_mtime_ns, digest)
    if status.st_size > limit:
        return _plain(status, PathKind.FILE, reason=f"larger than {_amount(limit)}")
    if known is not None and _unchanged(known, status, objects):
        return known
    try:
        digest, size, attributes = _contents(folder, name, status, objects)
    except OSError as error:
        if error.errno in _NOTHING:
            raise _ChangedError from error
        return _plain(status, PathKind.FILE, reason=unreadable(error))
    entry = PathEntry(PathKind.FILE, stat.S_IMODE(mode), size, status.st_mtime_ns, digest)
    return replace(entry, attributes=attributes) if attributes else entry


def attributes_of(file: int | Path) -> str:
    """Return the names of a file's access list, privileges and attributes, separated by spaces.

    The result is often empty.
    """
    try:
        names = os.listxattr(file, **({"follow_symlinks": False} if isinstance(file, Path) else {}))
    except (AttributeError, OSError):
        return ""
    return " ".join(sorted(name for name in names if name.startswith(_ATTRIBUTES)))


def _linked(folder: int, name: str, status: os.stat_result, objects: ObjectStore) -> str | None:
    try:
        with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb", buffering=0) as file:
            if not os.path.samestat(os.fstat(file.fileno()), status):
                raise _ChangedError
            return objects.link(folder, name, file.read)
    except OSError:
        return None


def _link(folder: int, name: str, status: os.stat_result) -> PathEntry:
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        raise _ChangedError from error
    return PathEntry(PathKind.LINK, 0, 0, status.st_mtime_ns, target=target)


def _unchanged(known: PathEntry, status: os.stat_result, objects: ObjectStore | None) -> bool:
    return (
        known.kind is PathKind.FILE
        and known.digest is not None
        and (known.size, known.mode, known.modified)
        == (status.st_size, stat.S_IMODE(status.st_mode), status.st_mtime_ns)
        and status.st_mtime_ns < time.time_ns() - SETTLED
        and (objects is None or objects.has(known.digest))
    )


def _contents(
    folder: int, name: str, status: os.stat_result, objects: ObjectStore | None
) -> tuple[str, int, str]:
    """Return digest, size and attribute names of a plain file.

    Raises `_ChangedError` if it changed in the meantime, and `OSError`.
    """
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        if not os.path.samestat(before, status) or _stamp(before) != _stamp(status):
            raise _ChangedError
        reading = _Bounded(file.read, status.st_size)
        digest, size = _keep(reading, status.st_size, objects)
        if size != status.st_size or _stamp(os.fstat(file.fileno())) != _stamp(status):
            raise _ChangedError
        return digest, size, attributes_of(file.fileno())


class _Bounded:
    """Reads at most one byte beyond the expected size, however fast a file grows."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read = read
        self._left = size + 1

    def __call__(self, count: int) -> bytes:
        data = self._read(min(count, self._left)) if self._left else b""
        self._left -= len(data)
        return data


def _keep(read: Callable[[int], bytes], size: int, objects: ObjectStore | None) -> tuple[str, int]:
    if objects is not None and size > _AT_ONCE:
        return objects.put_stream(read)
    if objects is not None:
        data = b"".join(iter(lambda: read(CHUNK), b""))
        if len(data) != size:
            raise _ChangedError
        return objects.add(data), size
    hashed, count = sha256(), 0
    while data := read(CHUNK):
        hashed.update(data)
        count += len(data)
    return hashed.hexdigest(), count


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _plain(status: os.stat_result, kind: PathKind, *, reason: str = "") -> PathEntry:
    size = status.st_size if kind is PathKind.FILE else 0
    return PathEntry(kind, stat.S_IMODE(status.st_mode), size, status.st_mtime_ns, reason=reason)


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "is a pipe"
    return "is a socket" if stat.S_ISSOCK(mode) else "is a device"


def _amount(limit: int) -> str:
    return f"{limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"{limit:,} bytes"


T = TypeVar("T")

_COUNT, _BYTES = 500, 32_000_000
"""The number of objects, and of bytes, requested at once."""
_ANSWER = 2 * _BYTES + 60_000_000
"""The size limit of one answer: a single object may have up to 50 MB."""
_SECONDS = 20.0
_PATIENCE = 60.0
"""Seconds for all requests of one call: a broken repository must not block for hours."""
_ASKED = 5_000


class GitObjects:
    """The objects of the repositories in and around `root`. Methods block: use a thread.

    `folder` holds the hard links to objects of all repositories.
    """

    def __init__(self, root: Path, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self._root = root
        self._loop = loop
        self._folder = folder
        self._keeps: dict[Path, GitKeep] = {}

    def read(self, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield id and contents of objects, in groups; `wanted` gives the expected sizes.

        Unavailable objects are left out.
        """
        until = time.monotonic() + _PATIENCE
        left = dict(wanted)
        for place in (self._root, *(keep.place for keep in self._keeps.values())):
            if not left:
                continue
            for ids in _portions(left):
                found = self._run(_some(place, ids, until))
                yield from found.items()
                for each in found:
                    left.pop(each, None)

    def present(self, ids: Iterable[str]) -> Iterator[set[str]]:
        """Yield which of these objects exist, in groups. Reads no contents."""
        wanted = set(ids)
        for keep in self._keeps.values():
            held = keep.holds(wanted)
            wanted -= held
            yield held
        until = time.monotonic() + _PATIENCE
        ordered = in_order(wanted)
        for start in range(0, len(ordered), _ASKED):
            yield set(self._run(_present(self._root, ordered[start : start + _ASKED], until)))

    def hold(self, places: Iterable[Path]) -> Iterator[None]:
        """Make hard links to new objects in these object folders, and in that of the work tree.

        Yields between pieces of work. Never raises.
        """
        for place in dict.fromkeys((*_own(self._root), *places)):
            try:
                objects = place.resolve(strict=True)
                keep = self._keeps.setdefault(objects, GitKeep(self._folder, objects))
                yield from keep.refresh()
            except (OSError, HermesError) as error:
                keep = self._keeps.setdefault(place, GitKeep(self._folder, place))
                keep.reason = str(getattr(error, "strerror", None) or error).lower()

    def uncovered(self) -> tuple[LeftOut, ...]:
        """Return the object folders that are not completely kept."""
        found = []
        for keep in self._keeps.values():
            if keep.reason:
                inside = keep.source.is_relative_to(self._root)
                name = keep.source.relative_to(self._root).as_posix() if inside else str(keep.source)
                found.append(LeftOut(name, keep.reason))
        return tuple(found)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _own(root: Path) -> list[Path]:
    """Return the object folder of the repository that contains `root`."""
    with suppress(OSError, RuntimeError):
        top = top_folder(root)
        git = git_folder(top) if top is not None else None
        if git is not None:
            return [common_folder(git).resolve() / "objects"]
    return []


def _portions(wanted: Mapping[str, int]) -> list[tuple[str, ...]]:
    portions: list[list[str]] = [[]]
    size = 0
    for each in sorted(wanted):
        if portions[-1] and (len(portions[-1]) == _COUNT or size + wanted[each] > _BYTES):
            portions.append([])
            size = 0
        portions[-1].append(each)
        size += wanted[each]
    return [tuple(portion) for portion in portions]


async def _some(place: Path, ids: tuple[str, ...], until: float) -> dict[str, bytes]:
    if time.monotonic() > until:
        return {}
    lines = "".join(f"{each}\n" for each in ids).encode("ascii")
    try:
        result = await run_git(place, "cat-file", "--batch", seconds=_SECONDS, input=lines, limit=_ANSWER)
    except (GitError, OSError):
        if len(ids) == 1:
            return {}
        half = len(ids) // 2
        return await _some(place, ids[:half], until) | await _some(place, ids[half:], until)
    return dict(_objects(result.output))


async def _present(root: Path, ids: list[str], until: float) -> list[str]:
    if time.monotonic() > until:
        return []
    lines = "".join(f"{each}\n" for each in ids).encode("ascii")
    try:
        result = await run_git(root, "cat-file", "--batch-check", seconds=_SECONDS, input=lines)
    except (GitError, OSError):
        return []
    words = (line.split() for line in result.output.split(b"\n"))
    return [each[0].decode("ascii") for each in words if len(each) == 3 and each[1] == b"blob"]


def _objects(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield id and contents of objects in git's output.

    Each has a line `id kind size` before it and a line feed after it.
    """
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        words = data[at:end].split()
        at = end + 1
        if len(words) == 3 and words[2].isdigit():
            size = int(words[2])
            if words[1] == b"blob":
                yield words[0].decode("ascii"), data[at : at + size]
            at += size + 1


NOT_YET = "was not read yet"
TOO_MUCH = "more than checkpoints keep beforehand"
_FEW = 500
"""The number of paths up to which each is looked up separately instead of listing the store."""
WHOLE = 50_000_000
"""The size above which git's copy of a file is not used, because it would be held in memory."""


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """The size limits of stored contents, in bytes."""

    file: int
    """The limit of one file."""
    beforehand: int
    """The limit of all files stored before any change."""
    objects: bool = True
    """Whether contents of git's extensions get second names, whatever their size."""


class Precapture:
    """One pass over all files in `known`, which it updates."""

    def __init__(
        self,
        root: Path,
        objects: ObjectStore,
        git: GitObjects,
        limits: CaptureLimits,
        known: dict[str, KnownPath],
        places: Iterable[Path] = (),
        units: Units = NO_UNITS,
    ) -> None:
        self._root = root
        self._objects = objects
        self._git = git
        self._largest = limits.file
        self._room = limits.beforehand
        self._known = known
        self._places = places
        """Folders of git's objects in the workspace."""
        self._units = units
        self._links = limits.objects
        self._stored: set[str] = set()
        """Contents that were in the store at the start."""

    def all(self, index: Index) -> Iterator[None]:
        """Store the contents of all files; yields after each file. The caller may change `known` then."""
        self._stored = set()
        for shard in self._objects.shards() if len(self._known) > _FEW else ():
            self._stored.update(stored.digest for stored in self._objects.listing(shard))
            yield
        yield from self._confirm_all(index)
        yield from self._git.hold(self._places)
        there: set[str] = set()
        for portion in self._git.present(self._blobs()):
            there |= portion
            yield
        for path in [path for path, known in self._known.items() if known.blob and known.blob not in there]:
            self._distrust(path)
        yield from self._keep_rest()

    def _confirm_all(self, index: Index) -> Iterator[None]:
        """Compare the files with the contents that git says it has."""
        for path in list(self._known):
            known = self._known.get(path)
            tracked = index.files.get(path)
            if known is None or known.entry is None:
                continue
            if known.entry.reason == NOT_YET and tracked is not None:
                self._confirm(path, known, tracked.blob)
            elif known.blob:
                if index.top is not None and (tracked is None or tracked.blob != known.blob):
                    self._distrust(path)
                continue
            elif known.entry.digest is None or self._has(known.entry.digest):
                continue
            else:
                self._distrust(path)
            yield

    def _has(self, digest: str) -> bool:
        """Return whether contents are in the store. Those named by a register are not checked on disk."""
        return digest in self._stored or self._objects.has(digest)

    def _confirm(self, path: str, known: KnownPath, blob: str) -> None:
        assert known.entry is not None
        if known.entry.size > min(WHOLE, self._largest):
            self._distrust(path)
            return
        try:
            data, status = read_bytes(self._root / path, WHOLE)
        except OSError:
            return
        if stamp_of(status) != known.stamp or self._stands(path, known) is None:
            # It changes at this moment: what git has may be all there is of what it was.
            return
        if blob_id(data) == blob:
            entry = replace(known.entry, reason="", digest=sha256(data).hexdigest())
            self._known[path] = known._replace(entry=entry, blob=blob)
        else:
            self._distrust(path)

    def _distrust(self, path: str) -> None:
        """Record that a file differs from git's data, so that its contents are stored here."""
        known = self._known.get(path)
        if known is not None and known.entry is not None:
            entry = replace(known.entry, digest=None, reason=NOT_YET)
            self._known[path] = known._replace(entry=entry, blob="")

    def _blobs(self) -> set[str]:
        return {known.blob for known in list(self._known.values()) if known.blob}

    def _keep_rest(self) -> Iterator[None]:
        waiting = [path for path, known in self._known.items() if waits(known)]
        for path in in_order(waiting, key=self._rank):
            known = self._known.get(path)
            if known is None or known.entry is None or not waits(known):
                continue
            if self._units.role(path) == "contents":
                self._keep(path, known, link=self._links)
            elif known.entry.size > self._largest:
                self._leave(path, known, _larger(self._largest))
            elif known.entry.size > self._room:
                self._leave(path, known, TOO_MUCH)
            else:
                self._room -= known.entry.size
                self._keep(path, known)
            yield

    def _leave(self, path: str, known: KnownPath, reason: str) -> None:
        assert known.entry is not None
        self._known[path] = known._replace(entry=replace(known.entry, reason=reason))

    def _keep(self, path: str, known: KnownPath, *, link: bool = False) -> None:
        """Read and store a file if it is unchanged since it was seen; otherwise a later look finds the
        change.
        """
        assert known.entry is not None
        if self._stands(path, known) is None:
            return
        entry = take(self._root, path, self._objects, limit=self._largest, link=link)
        status = self._stands(path, known, again=link)
        if entry is not None and status is not None:
            entry = replace(entry, twin=known.entry.twin)
            self._known[path] = KnownPath(stamp_of(status), is_settled(status), entry, known.blob)

    def _rank(self, path: str) -> tuple[int, str]:
        """Return the sort key of a file: repository data, then users' work, then caches and downloads."""
        if self._units.group(path):
            return -1, path
        return sum(is_noise(part, folder=True) for part in path.split("/")), path

    def _stands(self, path: str, known: KnownPath, *, again: bool = False) -> os.stat_result | None:
        """Return the status of a file if it is unchanged since it was seen, else None.

        With `again` its change time does not count, because making a hard link changes that.
        """
        try:
            status = (self._root / path).lstat()
        except (OSError, ValueError):
            return None
        told = len(known.stamp) - again
        return status if stamp_of(status)[:told] == known.stamp[:told] else None


def waits(known: KnownPath) -> bool:
    """Return whether the contents of a file have not been read yet."""
    return known.entry is not None and known.entry.reason == NOT_YET and not known.blob


def _larger(limit: int) -> str:
    return f"larger than {limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"larger than {limit:,} bytes"
