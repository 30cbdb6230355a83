"""The folders of copies, and the removal of those left by killed processes.

- `copies/ID.lock`: locked by the process that owns the copy, as long as it runs. - `copies/ID/NAME`: the
copy; NAME is the name of the workspace. - `copies/ID/.git`: not a repository; it stops git from searching for
one above the copy. - `copies/ID/held`: the owner for whom the copy is kept after its process has ended: see
`CopyRecord`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, HermesError, StoreError
from agent.workspace.checkpoints.entries import LeftOut, PathEntry, Stamp, entry_of, entry_record
from agent.workspace.ignore import IgnoreFiles
from agent.workspace.isolated_copies.tree_copier import TreeCopied, cloned
from tools.kit.files import create_file, file_lock, lock_file, open_lock, write_atomically

HELD = "held"
"""The name of the file that records the owner of a kept copy."""

_LOCK = ".lock"
_BARRIER = b"A copy made by Hermes. The repository around its original is not part of it.\n"


class CopyFolder:
    """A folder for one copy, which this process owns until `remove` or `leave`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock: int | None = lock

    @property
    def id(self) -> str:
        return self.folder.name

    def remove(self) -> None:
        """Remove the copy with its content. Blocking; may be called again. Raises `StoreError`."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            _remove(self.folder)
            _lock_of(self.folder).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"The copy {self.folder} cannot be removed: {error.strerror or error}; it is tried again "
                "at the next start."
            ) from error
        finally:
            os.close(lock)

    def leave(self) -> None:
        """Release the folder for a later owner. May be called again."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.close(lock)


def claim(copies: Path) -> CopyFolder:
    """Create a new folder below `copies`. Raises `StoreError`."""
    try:
        private_folder(copies)
        while True:
            folder = copies / secrets.token_hex(6)
            lock = create_file(_lock_of(folder))
            if not lock_file(lock, seconds=0):
                # A sweep was faster: it took the lock file for an abandoned one.
                os.close(lock)
                continue
            place = CopyFolder(folder, lock)
            try:
                folder.mkdir(0o700)
                (folder / ".git").write_bytes(_BARRIER)
            except BaseException:
                place.remove()
                raise
            return place
    except ConfigError as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise StoreError(f"No copy can be made in {copies}: {error.strerror or error}.") from error


def reopen(copies: Path, id: str) -> CopyFolder:
    """Take over a released folder. Raises `StoreError` if it does not exist or another process uses it."""
    folder = copies / id
    try:
        lock = open_lock(_lock_of(folder))
        try:
            if not lock_file(lock, seconds=0):
                raise BlockingIOError
            if not folder.is_dir():
                _lock_of(folder).unlink(missing_ok=True)
                raise StoreError(f"The copy {folder} is no longer there.")
        except BaseException:
            os.close(lock)
            raise
        return CopyFolder(folder, lock)
    except BlockingIOError as error:
        raise StoreError(
            f"Another process works with the copy {folder}; try again when it is done."
        ) from error
    except OSError as error:
        raise StoreError(f"The copy {folder} cannot be used: {error.strerror or error}.") from error


def sweep(copies: Path, forsaken: Collection[str] = ()) -> int:
    """Remove the copies of ended processes; return their number. Blocking; never raises.

    A copy held for an owner is kept, unless its id is in `forsaken`.
    """
    removed = 0
    with suppress(OSError):
        names = {path.name.removesuffix(_LOCK) for path in copies.iterdir()}
        for name in sorted(names):
            with suppress(OSError):
                removed += _sweep_one(copies / name, name in forsaken)
    return removed


def _sweep_one(folder: Path, forsaken: bool) -> bool:
    with file_lock(_lock_of(folder), seconds=0):
        if (folder / HELD).is_file() and not forsaken:
            return False
        there = folder.is_dir()
        _remove(folder)
        _lock_of(folder).unlink(missing_ok=True)
        return there


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)


def _remove(folder: Path) -> None:
    """Remove a folder with its content, including read-only folders. Raises `OSError`."""
    if not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
    except PermissionError:
        for above, names, _ in os.walk(folder):
            for place in (Path(above), *(Path(above, name) for name in names)):
                mode = place.lstat().st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                    place.chmod(0o700)
        shutil.rmtree(folder)


MEGABYTE = 1_000_000
_SPARE = 500 * MEGABYTE
"""The number of bytes that a copy leaves free on the disk."""
_LOOKED_AT = 200
"""The number of files tried to find out whether the file system can share blocks."""


def clones(source: Path, target: Path) -> bool:
    """Return whether files in `source` and the folder `target` can share disk blocks, by trying it."""
    tried = 0
    beside = target / "clone"
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder, name)
            tried += 1
            if tried > _LOOKED_AT:
                return False
            try:
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode) or not status.st_size:
                    continue
                origin = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                copy = create_file(beside)
                try:
                    return cloned(origin, copy)
                finally:
                    os.close(copy)
                    beside.unlink()
            finally:
                os.close(origin)
    return False


@dataclass(slots=True)
class _Sizes:
    total: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    """The sizes in bytes of the outermost folders that git ignores."""


def too_much(source: Path, target: Path, most: int) -> tuple[LeftOut, ...]:
    """Return the paths of `source` to leave out, so that the rest has at most `most` bytes.

    Only folders that git ignores are left out, the largest first. Raises `HermesError` if that is not enough,
    or if the disk of `target` does not have enough space.
    """
    sizes = _measured(source)
    left: list[LeftOut] = []
    free = shutil.disk_usage(target).free
    most = min(most, room := max(0, free - _SPARE))
    for path, size in sorted(sizes.ignored.items(), key=lambda item: -item[1]):
        if sizes.total <= most:
            break
        sizes.total -= size
        left.append(LeftOut(path, f"is ignored by git and has {size // MEGABYTE:,} MB"))
    if sizes.total > most:
        limit = f"copies may have {most // MEGABYTE:,} MB"
        if most == room:
            spare = f"a copy leaves {_SPARE // MEGABYTE:,} MB free"
            limit = f"the disk of {target.parent} has {free / MEGABYTE:,.1f} MB, and {spare}"
        raise HermesError(
            f"A copy of {source} would have {sizes.total / MEGABYTE:,.1f} MB, but {limit}; free some room, "
            "or let git ignore what is not needed."
        )
    return tuple(sorted(left, key=lambda item: item.path))


def _measured(source: Path) -> _Sizes:
    sizes = _Sizes()
    ignore = IgnoreFiles(source)
    waiting: list[tuple[str, str]] = [("", "")]
    while waiting:
        folder, counted = waiting.pop()
        try:
            with os.scandir(source / folder) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                size = status.st_blocks * 512
                sizes.total += size
                if counted:
                    sizes.ignored[counted] += size
            elif stat.S_ISDIR(status.st_mode) and entry.name != ".git":
                below = counted
                if not below and ignore.skips(path, folder=True):
                    below = path
                    sizes.ignored[path] = 0
                waiting.append((path, below))
    return sizes


FORMAT = 1
_BATCH = 1_000
_LAST = ["end"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner for whom a copy is held after its process has ended."""

    session: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord:
    """The data needed to take over a copy."""

    holder: Holder
    name: str
    """The name of the folder with the files, inside the folder of the copy."""
    origin: Path
    position: int
    copied: TreeCopied
    stamps: Mapping[str, tuple[Stamp, bool]]
    """The first state of each path of the copy, and whether any later change certainly shows."""
    bases: Mapping[str, PathEntry | None]


def write(place: Path, held: CopyRecord) -> None:
    """Write the record of a copy, replacing the old one. Blocking. Raises `StoreError`."""
    try:
        write_atomically(place / HELD, _batches(_records(held)), PRIVATE_FILE, replace_any=True)
    except OSError as error:
        raise StoreError(f"What {place} holds cannot be noted: {error.strerror or error}.") from error


def read(place: Path) -> CopyRecord:
    """Read the record of a copy. Blocking. Raises `StoreError`."""
    try:
        with (place / HELD).open(encoding="ascii") as lines:
            head = json.loads(next(lines, "null"))
            return _record_of(head, [json.loads(line) for line in lines])
    except OSError as error:
        raise StoreError(f"The copy {place} cannot be used: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"The note of the copy {place} is damaged; its files are still there.") from error


def holders(copies: Path) -> dict[str, Holder]:
    """Return the owners of held copies below `copies`, by id, oldest first. Blocking; never raises."""
    found: list[tuple[int, str, Holder]] = []
    with suppress(OSError):
        for place in copies.iterdir():
            with suppress(OSError, ValueError, TypeError, KeyError), (place / HELD).open("rb") as lines:
                head = json.loads(next(lines, b"null"))
                since = os.fstat(lines.fileno()).st_mtime_ns
                found.append((since, place.name, Holder(str(head["session"]), str(head["agent"]))))
    return {id: holder for _, id, holder in sorted(found, key=lambda each: each[:2])}


def _records(held: CopyRecord) -> Iterator[list[Any] | dict[str, Any]]:
    copied = held.copied
    yield {
        "format": FORMAT,
        "session": held.holder.session,
        "agent": held.holder.agent,
        "name": held.name,
        "origin": str(held.origin),
        "position": held.position,
        "left_out": [[item.path, item.reason] for item in copied.left_out],
        "leading_back": copied.leading_back,
    }
    yield from (["file", path, stamp] for path, stamp in copied.files.items())
    yield from (["other", path, entry_record(entry)] for path, entry in copied.others.items())
    yield from (["seen", path, stamp, settled] for path, (stamp, settled) in held.stamps.items())
    yield from (["base", path, entry_record(entry)] for path, entry in held.bases.items())
    yield _LAST


def _batches(records: Iterable[Any]) -> Iterator[bytes]:
    lines: list[str] = []
    for record in records:
        lines.append(json.dumps(record))
        if len(lines) >= _BATCH:
            yield ("\n".join(lines) + "\n").encode("ascii")
            lines = []
    yield ("\n".join(lines) + "\n").encode("ascii") if lines else b""


def _record_of(head: Mapping[str, Any], records: list[list[Any]]) -> CopyRecord:
    if head["format"] != FORMAT or not records or records.pop() != _LAST:
        raise ValueError("cut short, or of another version")
    copied = TreeCopied(
        left_out=[LeftOut(str(path), str(reason)) for path, reason in head["left_out"]],
        leading_back=list(map(str, head["leading_back"])),
    )
    stamps: dict[str, tuple[Stamp, bool]] = {}
    bases: dict[str, PathEntry | None] = {}
    for kind, path, what, *rest in records:
        if kind == "file":
            copied.files[path] = _stamp(what)
        elif kind == "seen":
            stamps[path] = _stamp(what), bool(rest[0])
        elif kind == "base":
            bases[path] = entry_of(what)
        elif (entry := entry_of(what)) is not None:
            copied.others[path] = entry
    name = str(head["name"])
    if name in ("", ".", "..") or "/" in name:
        raise ValueError("no name of a folder")
    return CopyRecord(
        holder=Holder(str(head["session"]), str(head["agent"])),
        name=name,
        origin=Path(str(head["origin"])),
        position=int(head["position"]),
        copied=copied,
        stamps=stamps,
        bases=bases,
    )


def _stamp(record: Iterable[Any]) -> Stamp:
    return tuple(map(int, record))
