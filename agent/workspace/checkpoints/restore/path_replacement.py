"""Replacing one path without losing a byte that another program writes there at the same time.

New contents are written next to the path, then the two are exchanged in one step. Then the old object is
checked: it is removed only if it is the one that the plan saw. Otherwise it is put back. If another file has
been created at the path by then, the old object stays next to it under a name that shows this.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.objects import ObjectStore, write_all
from agent.workspace.checkpoints.restore.shared_files import (
    READ,
    is_half_written,
    is_shared,
    read_pieces,
    write_through,
)
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.units import TOP
from agent.workspace.ignore import is_noise
from tools.files.atomic_swap import exchange, move_new
from tools.kit.files import create_file, open_folder

_PRIVILEGES = "security.capability"


def write_sparsely(descriptor: int, chunks: Iterable[bytes]) -> None:
    """Write pieces one after another; pieces of zeros become holes. Raises `OSError`."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if chunk.count(0) == len(chunk):
            os.lseek(descriptor, len(chunk), os.SEEK_CUR)
        else:
            write_all(descriptor, chunk)
    os.ftruncate(descriptor, size)


def set_time(folder: int, name: str, entry: PathEntry) -> None:
    """Set the modification time of a file or link, if permitted. Without a recorded time nothing is set."""
    if entry.modified > 0:
        with suppress(OSError):
            os.utime(name, ns=(entry.modified, entry.modified), dir_fd=folder, follow_symlinks=False)


def copy_attributes(folder: int, name: str, descriptor: int) -> None:
    """Copy owner, access list and attributes of the file `name` to an open new file, as far as permitted."""
    with suppress(OSError):
        old = os.open(name, READ, dir_fd=folder)
        try:
            _owner(old, descriptor)
            _attributes(old, descriptor)
        finally:
            os.close(old)


def _owner(old: int, new: int) -> None:
    was, now = os.fstat(old), os.fstat(new)
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        with suppress(OSError):
            os.fchown(new, was.st_uid, was.st_gid)


def _attributes(old: int, new: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    for name in os.listxattr(old):
        # Privileges were given to the old content, not to this one.
        if name != _PRIVILEGES:
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))


WAIT_SECONDS = 0.2
"""Seconds to wait for a writer to finish: an editor does soon, a log never."""
_PAUSE = 0.005

_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL = getattr(fcntl, "F_SETSIG", 10)


class OpenWriters:
    """A check for files that are being written, which waits for writers at most `budget` seconds in all."""

    def __init__(self, budget: float = 2.0) -> None:
        self._budget = budget

    def remain(self, folder: int, name: str) -> bool:
        """Wait briefly; return whether a process still has a file in an open folder open for writing."""
        until = time.monotonic() + min(WAIT_SECONDS, self._budget)
        began = time.monotonic()
        while writer_state(folder, name):
            if time.monotonic() >= until:
                self._budget = max(0.0, self._budget - (time.monotonic() - began))
                return True
            time.sleep(_PAUSE)
        return False


def writer_state(folder: int, name: str) -> bool | None:
    """Return whether any process has the file open for writing; None if unknown."""
    if _SET_LEASE is None:
        return None
    try:
        descriptor = os.open(name, READ, dir_fd=folder)
    except OSError:
        return None
    try:
        # If a process opens the file while the lease is held, the system sends a signal. This signal does
        # nothing; the default one would end this process.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        with suppress(OSError):
            fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)
        os.close(descriptor)
    return False


CHANGED = "was changed while it was being restored, and stays as it is"
NOT_EMPTY = "holds something else and stays"
WRITTEN = "is open in a program that writes to it, and stays as it is"
NO_FOLDER = "has no folder to stand in any more"

_LONGEST = 200
_OWNER = stat.S_IWUSR | stat.S_IXUSR


@dataclass(frozen=True, slots=True)
class Move:
    """One change by a restore: `path` becomes `wanted`, if its state is still `now`."""

    path: str
    now: PathEntry | None
    wanted: PathEntry | None

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Placer:
    """The means to carry out moves below `root`. `beside` is the unique prefix of temporary file names."""

    def __init__(self, root: Path, objects: ObjectStore, beside: str, limit: int) -> None:
        self._root = root
        self._objects = objects
        self._beside = beside
        self._limit = limit
        self._writers = OpenWriters()

    def clear_away(self, move: Move, number: int) -> str:
        """Remove the object at the path if it is the one that the plan saw; return the reason if it was not
        removed.
        """
        try:
            with self._parent(move) as folder:
                if move.now is not None and move.now.kind is PathKind.FOLDER:
                    os.rmdir(move.name, dir_fd=folder)
                    return ""
                beside = self._name(number)
                move_new(folder, move.name, beside)
                reason = self._kept_from(folder, move, beside)
                if not reason:
                    os.unlink(beside, dir_fd=folder)
                    return ""
                return self._back(folder, move, beside, reason)
        except FileNotFoundError:
            return "" if move.now is None else CHANGED
        except OSError as error:
            return _reason(error)

    def make_folder(self, move: Move) -> str:
        """Create a folder that stays private until `set_mode`; return the reason if that failed."""
        try:
            with self._parent(move) as folder:
                os.mkdir(move.name, 0o700, dir_fd=folder)
        except FileExistsError:
            # The workspace itself already exists by now.
            return CHANGED if move.path != TOP else ""
        except OSError as error:
            return _reason(error)
        return ""

    def place(self, move: Move, number: int) -> str:
        """Put the target file or link at a path that is not a folder; return the reason if that failed."""
        assert move.wanted is not None
        try:
            with self._parent(move) as folder:
                if move.now is not None and is_shared(folder, move.name, move.wanted):
                    return self._put_through(folder, move)
                beside = self._name(number)
                like = move.name if move.now is not None and move.now.kind is PathKind.FILE else ""
                self._prepare(folder, beside, move.wanted, like)
                try:
                    if move.now is None:
                        move_new(folder, beside, move.name)
                        return ""
                    exchange(folder, beside, move.name)
                except OSError as error:
                    os.unlink(beside, dir_fd=folder)
                    if error.errno == errno.EBUSY and like and move.wanted.kind is PathKind.FILE:
                        # The file itself is a mount point, as in containers.
                        return self._put_through(folder, move)
                    gone = isinstance(error, (FileExistsError, FileNotFoundError))
                    return CHANGED if gone else _reason(error)
                reason = self._kept_from(folder, move, beside)
                if not reason:
                    os.unlink(beside, dir_fd=folder)
                    return ""
                return self._swap_back(folder, move, beside, reason)
        except StoreError as error:
            return f"could not be restored: {error}"
        except OSError as error:
            return _reason(error)

    def join(self, move: Move, number: int) -> str:
        """Replace the path by a hard link to its twin, if both have their target state; return the reason if
        that failed.
        """
        assert move.wanted is not None
        twin = Move(move.wanted.twin, move.wanted, move.wanted)
        if not self._is(move, move.name, move.wanted) or not self._is(twin, twin.name, twin.wanted):
            return ""
        try:
            with self._parent(twin) as there, self._parent(move) as here:
                beside = self._name(number)
                os.link(twin.name, beside, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)
                exchange(here, beside, move.name)
                if self._is(move, beside, move.wanted) and not self._writers.remain(here, beside):
                    os.unlink(beside, dir_fd=here)
                    return ""
                return self._swap_back(here, move, beside, CHANGED)
        except OSError as error:
            return _reason(error)

    def relax(self, move: Move) -> None:
        """Give the owner write permission for a folder until `set_mode` restores its mode."""
        with suppress(OSError), self._folder(move.path) as folder:
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            if mode & _OWNER != _OWNER:
                _chmod(folder, mode | stat.S_IRWXU)

    def set_mode(self, move: Move) -> str:
        """Set the final mode of a folder; return the reason if that failed."""
        assert move.wanted is not None
        try:
            with self._folder(move.path) as folder:
                if stat.S_IMODE(os.fstat(folder).st_mode) != move.wanted.mode:
                    _chmod(folder, move.wanted.mode)
        except OSError as error:
            return _reason(error)
        return ""

    def tidy(self, move: Move, number: int) -> str:
        """Handle files left next to a path by a killed restore; return a notice for the user, or ""."""
        beside = self._name(number)
        try:
            with self._parent(move) as folder:
                with suppress(FileNotFoundError):
                    os.unlink(f"{beside}.part", dir_fd=folder)
                self._finish_write(folder, move)
                return "".join(self._tidy_up(folder, move, name) for name in (f"{beside}~", beside))
        except OSError:
            return ""

    def _tidy_up(self, folder: int, move: Move, name: str) -> str:
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return ""
        known = (move.now, move.wanted)
        ours = any(entry is not None and self._is(move, name, entry) for entry in known)
        if ours and not self._writers.remain(folder, name):
            os.unlink(name, dir_fd=folder)
            return ""
        if move.wanted is not None and self._is(move, move.name, move.wanted):
            return self._swap_back(folder, move, name, CHANGED)
        return self._back(folder, move, name, CHANGED)

    # Small steps

    def _put_through(self, folder: int, move: Move) -> str:
        """Write into the existing file, because its other names must be restored too; return the reason if
        that failed.
        """
        now, wanted = move.now, move.wanted
        assert now is not None
        assert now.digest is not None
        assert wanted is not None
        assert wanted.digest is not None
        if self._is(move, move.name, wanted):
            # Already written through another hard link.
            return ""
        if reason := self._kept_from(folder, move, move.name):
            return reason
        try:
            chunks = self._objects.chunks(wanted.digest)
            write_through(folder, move.name, chunks, wanted.mode, wanted.modified)
        except (OSError, StoreError):
            chunks = self._objects.chunks(now.digest)
            write_through(folder, move.name, chunks, now.mode, now.modified)
            raise
        return ""

    def _finish_write(self, folder: int, move: Move) -> None:
        """Complete a write that a killed restore began into a file with several names."""
        now, wanted = move.now, move.wanted
        if now is None or wanted is None or not is_shared(folder, move.name, wanted):
            return
        found = b"".join(read_pieces(folder, move.name))
        # If one of the two is damaged, the content may be by others; the check of the state decides.
        with suppress(StoreError):
            old, new = self._objects.read(now.digest or ""), self._objects.read(wanted.digest or "")
            if found not in (old, new) and is_half_written(found, old, new):
                write_through(folder, move.name, [new], wanted.mode, wanted.modified)

    def _prepare(self, folder: int, beside: str, wanted: PathEntry, like: str) -> None:
        """Write the target contents next to the path under the name `beside`, completely or not at all.

        `like` is the name of the file to be replaced: attributes that checkpoints do not store are copied
        from it.
        """
        if wanted.kind is PathKind.LINK:
            os.symlink(wanted.target, beside, dir_fd=folder)
            set_time(folder, beside, wanted)
            return
        assert wanted.digest is not None
        part = f"{beside}.part"
        descriptor = create_file(part, folder=folder)
        try:
            try:
                write_sparsely(descriptor, self._objects.chunks(wanted.digest))
                if like:
                    copy_attributes(folder, like, descriptor)
                os.fchmod(descriptor, wanted.mode)
            finally:
                os.close(descriptor)
            set_time(folder, part, wanted)
            os.rename(part, beside, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise

    def _kept_from(self, folder: int, move: Move, beside: str) -> str:
        """Return the reason why the replaced object must not be removed; empty if it may be."""
        is_file = move.now is not None and move.now.kind is PathKind.FILE
        # From here on no other program can open the file, because only Hermes knows its name.
        if is_file and self._writers.remain(folder, beside):
            return WRITTEN
        return "" if self._is(move, beside, move.now) else CHANGED

    def _swap_back(self, folder: int, move: Move, beside: str, reason: str) -> str:
        """Put the replaced object back, because another program changed it; return the reason."""
        exchange(folder, beside, move.name)
        if move.wanted is not None and self._is(move, beside, move.wanted):
            os.unlink(beside, dir_fd=folder)
            return reason
        # The path was changed again in the meantime, so the newer file is put back.
        exchange(folder, beside, move.name)
        return self._set_aside(folder, move, beside)

    def _back(self, folder: int, move: Move, beside: str, reason: str) -> str:
        try:
            move_new(folder, beside, move.name)
        except FileExistsError:
            return self._set_aside(folder, move, beside)
        return reason

    def _set_aside(self, folder: int, move: Move, beside: str) -> str:
        kept = beside
        for count in range(1, 1_000):
            # A long name would be too long with the added text.
            name = f"{os.fsdecode(os.fsencode(move.name)[:_LONGEST])}.yours-{count}"
            try:
                move_new(folder, beside, name)
            except FileExistsError:
                continue
            except OSError:
                break
            kept = name
            break
        return f"was changed twice while it was being restored; the earlier version is in {kept}"

    def _is(self, move: Move, name: str, entry: PathEntry | None) -> bool:
        """Return whether the object `name` next to the path has the state `entry`, including its contents."""
        path = f"{move.parent}/{name}" if move.parent else name
        limit = max(self._limit, entry.size if entry else 0)
        return entry is not None and alike(capture_path(self._root, path, None, limit=limit), entry)

    def _name(self, number: int) -> str:
        return f"{self._beside}-{number}"

    def _parent(self, move: Move) -> AbstractContextManager[int]:
        return self._folder(move.parent)

    @contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        with open_folder(self._root / path if path else self._root) as folder:
            yield folder


def _chmod(folder: int, mode: int) -> None:
    try:
        os.fchmod(folder, mode)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        # A descriptor only for path resolution; its name below /proc leads to the same folder.
        Path(f"/proc/self/fd/{folder}").chmod(mode)


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return NOT_EMPTY
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return NO_FOLDER
    return f"could not be restored: {(error.strerror or str(error)).lower()}"


_HEAD = 8_000
_STEP = 1_000
"""The nanoseconds between two files that get the current time."""
_DATED = (PathKind.FILE, PathKind.LINK)


@dataclass(frozen=True, slots=True)
class _Stayed:
    """A file that differs from the restored position and is left unchanged."""

    modified: int
    recorded: int
    """Its time at the position, in nanoseconds; 0 if it was missing."""
    is_result: bool


def with_times(
    root: Path, moves: Sequence[Move], known: Mapping[str, PathEntry | None], objects: ObjectStore
) -> list[Move]:
    """Return the moves, each with the modification time for its file. Blocking.

    A restored file gets the current time if files that stay are newer, so that build tools rebuild from it.
    `known` are the states at the restored position of all paths changed since.
    """
    moving = {move.path for move in moves}
    stayed = list(_left_behind(root, ((path, was) for path, was in known.items() if path not in moving)))
    newest = max((each.modified for each in stayed), default=0)
    new = {
        move.path
        for move in moves
        if (entry := move.wanted) is not None
        and entry.kind in _DATED
        and 0 < entry.modified < newest
        and _has_to_look_new(entry, [each for each in stayed if each.modified > entry.modified], objects)
    }
    if not new:
        return list(moves)
    ordered = sorted(
        (move for move in moves if move.path in new),
        key=lambda move: (move.wanted.modified if move.wanted else 0, move.path),
    )
    now = time.time_ns() - _STEP * len(ordered)
    at = {move.path: now + _STEP * number for number, move in enumerate(ordered)}
    return [
        replace(move, wanted=replace(move.wanted, modified=at[move.path]))
        if move.path in at and move.wanted is not None
        else move
        for move in moves
    ]


def redate(root: Path, done: Iterable[Move], wanted: Iterable[Move]) -> None:
    """Adjust the times of restored files, because some files were left unchanged. Blocking."""
    for was, move in zip(done, wanted, strict=True):
        if was.wanted is not None and move.wanted is not None and was.wanted != move.wanted:
            with suppress(OSError), open_folder(root / move.parent if move.parent else root) as folder:
                set_time(folder, move.name, move.wanted)


def _has_to_look_new(entry: PathEntry, newer: Iterable[_Stayed], objects: ObjectStore) -> bool:
    if entry.kind is PathKind.FILE and _is_result(_stored_head(entry, objects)):
        return False
    # A text that was newer than all these texts may have been built from them.
    return any(each.is_result or not each.recorded or each.recorded >= entry.modified for each in newer)


def _left_behind(root: Path, paths: Iterable[tuple[str, PathEntry | None]]) -> Iterator[_Stayed]:
    for path, was in paths:
        # Nothing is built from files of version control or a cache.
        if any(is_noise(part, folder=True) for part in path.split("/")[:-1]):
            continue
        with suppress(OSError, ValueError):
            status = (root / path).lstat()
            recorded = was.modified if was is not None else 0
            if stat.S_ISDIR(status.st_mode) or status.st_mtime_ns == recorded:
                continue
            yield _Stayed(status.st_mtime_ns, recorded, _is_result(_head(root / path, status)))


def _is_result(head: bytes) -> bool:
    """Return whether a file that begins with `head` is the output of a program, and not text."""
    return b"\0" in head


def _stored_head(entry: PathEntry, objects: ObjectStore) -> bytes:
    if entry.digest is None:
        return b""
    try:
        return next(iter(objects.chunks(entry.digest)), b"")[:_HEAD]
    except StoreError:
        return b""


def _head(path: Path, status: os.stat_result) -> bytes:
    if not stat.S_ISREG(status.st_mode):
        return b""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, _HEAD, 0)
    finally:
        os.close(descriptor)
