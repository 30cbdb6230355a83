"""An exact copy of a whole workspace: bytes, modes, links, empty folders, times. Blocking.

Links are not followed and other file systems are not entered. Git data is copied in such a way that git in
the copy does not use the original: see `git_in_copies`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from agent.workspace.checkpoints.entries import (
    LeftOut,
    PathEntry,
    PathKind,
    Stamp,
    stamp_of,
    unreadable,
)
from agent.workspace.checkpoints.scan import identity_of
from agent.workspace.isolated_copies import git_in_copies
from tools.kit.files import create_file
from tools.kit.threads import Stopped

_FICLONE = 0x40049409
"""The request of `ioctl_ficlone(2)` on Linux."""
_SMALL = 262_144
_CHUNK = 8_388_608
_ATTEMPTS = 3
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_SUCH_WAY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY)


def cloned(source: int, target: int) -> bool:
    """Make the open file `target` share the disk blocks of `source` until a write; False if unsupported."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def copy_file(name: str, source: int, target: int, *, clone: bool) -> tuple[os.stat_result, bool]:
    """Copy the regular file `name` from the open folder `source` to `target`: bytes, mode and times.

    Returns the status of the source, and whether it was unchanged during the copy. Raises `OSError`.
    """
    descriptor = os.open(name, _READ, dir_fd=source)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EAGAIN, "became something else while it was copied")
        copy = create_file(name, folder=target)
        try:
            return _write_copy(descriptor, copy, status, clone)
        finally:
            os.close(copy)
    finally:
        os.close(descriptor)


def _write_copy(source: int, copy: int, status: os.stat_result, clone: bool) -> tuple[os.stat_result, bool]:
    still = False
    for attempt in range(_ATTEMPTS):
        if attempt:
            os.ftruncate(copy, 0)
            status = os.fstat(source)
        if not (clone and cloned(source, copy)):
            _copy_bytes(source, copy, status)
        after = os.fstat(source)
        still = _stamp(after) == _stamp(status)
        if still:
            break
    if status.st_uid != os.geteuid() and os.geteuid() == 0:
        os.fchown(copy, status.st_uid, status.st_gid)
    os.fchmod(copy, stat.S_IMODE(status.st_mode))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    return status, still


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _copy_bytes(source: int, copy: int, status: os.stat_result) -> None:
    """Copy at most the original size, in case the file grows. Holes remain holes."""
    size = status.st_size
    if size <= _SMALL:
        at = 0
        while at < size and (data := os.pread(source, size - at, at)):
            at += _write(copy, data, at)
        return
    if status.st_blocks * 512 < size:
        os.ftruncate(copy, size)
        at = 0
        while at < size and (extent := _data_after(source, at, size)) is not None:
            _copy_range(source, copy, *extent)
            at = extent[1]
        return
    _copy_range(source, copy, 0, size)


def _data_after(source: int, at: int, size: int) -> tuple[int, int] | None:
    """Return start and end of the next bytes after `at` that are not a hole; None if there are none."""
    try:
        begin = os.lseek(source, at, os.SEEK_DATA)
        return begin, min(size, os.lseek(source, begin, os.SEEK_HOLE))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        return at, size


def _copy_range(source: int, copy: int, begin: int, end: int) -> None:
    at = begin
    within_kernel = hasattr(os, "copy_file_range")
    while at < end:
        if within_kernel:
            try:
                count = os.copy_file_range(source, copy, min(_CHUNK, end - at), at, at)
            except OSError as error:
                if error.errno not in _NO_SUCH_WAY:
                    raise
                within_kernel = False
                continue
            if not count:
                return
            at += count
        else:
            data = os.pread(source, min(_CHUNK, end - at), at)
            if not data:
                return
            at += _write(copy, data, at)


def _write(copy: int, data: bytes, at: int) -> int:
    written = 0
    while written < len(data):
        written += os.pwrite(copy, data[written:], at + written)
    return written


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LEADS_BACK = "leads into the workspace itself, not into the copy"


@dataclass(slots=True)
class TreeCopied:
    """The files in a finished copy."""

    files: dict[str, Stamp] = field(default_factory=dict)
    """The regular files, with their states in the workspace."""
    others: dict[str, PathEntry] = field(default_factory=dict)
    """Folders and links."""
    left_out: list[LeftOut] = field(default_factory=list)
    restless: set[str] = field(default_factory=set)
    """Files that changed while they were copied, so that the copy may contain a mixture."""
    leading_back: list[str] = field(default_factory=list)
    """Links with an absolute path into the workspace."""
    repositories: list[str] = field(default_factory=list)
    """Git folders."""


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    status: os.stat_result
    git: bool
    """True inside a git folder, whose contents are not part of the workspace."""


class TreeCopier:
    """A copier of `source` (resolved) into the empty folder `target`.

    `clones` is True if the file system can share disk blocks. `skip` contains paths to leave out. `ours` is
    the home folder of Hermes. With `git`, the source is a git folder. `stop` ends the work early.
    """

    def __init__(
        self,
        source: Path,
        target: Path,
        *,
        clones: bool,
        stop: threading.Event,
        skip: Collection[str] = (),
        ours: Path | None = None,
        git: bool = False,
    ) -> None:
        self._source = source
        self._target = target
        self._clones = clones
        self._stop = stop
        self._skip = frozenset(skip)
        self._own = identity_of(ours)
        self._git = git
        self._top = source.stat()
        self._twins: dict[tuple[int, int], str] = {}
        self._made: list[tuple[str, os.stat_result]] = []
        self._waiting: list[_Folder] = []
        self.copied = TreeCopied()

    def run(self) -> TreeCopied:
        """Copy everything. Raises `OSError` if the target cannot be written, and `Stopped`."""
        self._waiting = [_Folder("", self._top, self._git)]
        while self._waiting:
            self._copy_folder(self._waiting.pop())
        for path, status in reversed(self._made):
            place = self._target / path
            place.chmod(stat.S_IMODE(status.st_mode))
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
        return self.copied

    def _copy_folder(self, folder: _Folder) -> None:
        path = folder.path
        try:
            source = os.open(self._source / path, _FOLDER)
        except OSError as error:
            self._leave(path, folder.git, unreadable(error))
            return
        try:
            # Between listing and opening, a folder above may have become a link.
            if not os.path.samestat(os.fstat(source), folder.status):
                self._leave(path, folder.git, "was moved while it was copied")
                return
            target = os.open(self._target / path, _FOLDER)
            try:
                self._copy_entries(folder, source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        if path or not self._git:
            self._made.append((path, folder.status))

    def _copy_entries(self, folder: _Folder, source: int, target: int) -> None:
        prefix = f"{folder.path}/" if folder.path else ""
        if folder.git and git_in_copies.is_folder_of_git(source):
            self.copied.repositories.append(folder.path)
        with os.scandir(source) as entries:
            for entry in entries:
                if self._stop.is_set():
                    raise Stopped
                path = prefix + entry.name
                if path in self._skip:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.name.casefold() == ".git" and not folder.git:
                    self._copy_git(path, status, target)
                elif folder.git and git_in_copies.stays_behind(entry.name, status, source):
                    continue
                else:
                    self._copy_entry(entry.name, path, status, source, target, folder.git)

    def _copy_entry(
        self, name: str, path: str, status: os.stat_result, source: int, target: int, git: bool
    ) -> None:
        mode = status.st_mode
        if stat.S_ISREG(mode):
            self._copy_plain(name, path, status, source, target, git)
        elif stat.S_ISLNK(mode):
            self._copy_link(name, path, status, source, target, git)
        elif not stat.S_ISDIR(mode):
            self._leave(path, git, "is not a file, link or folder")
        elif status.st_dev != self._top.st_dev:
            self._leave(path, git, "is on another file system")
        elif (status.st_dev, status.st_ino) == self._own:
            self._leave(path, git, "is where Hermes keeps its own files")
        else:
            self._make_folder(name, target)
            if not git:
                self.copied.others[path] = PathEntry(PathKind.FOLDER, stat.S_IMODE(mode))
            if git and name == "objects" and not self._clones and git_in_copies.is_folder_of_git(source):
                git_in_copies.borrow(self._source / path, self._target / path)
                return
            self._waiting.append(_Folder(path, status, git))

    def _copy_plain(
        self, name: str, path: str, status: os.stat_result, source: int, target: int, git: bool
    ) -> None:
        twin = self._twins.get((status.st_dev, status.st_ino)) if status.st_nlink > 1 else None
        if twin is not None:
            # Hard links to one file in the workspace are hard links to one file in the copy.
            os.link(self._target / twin, name, dst_dir_fd=target, follow_symlinks=False)
            still = twin not in self.copied.restless
        else:
            try:
                status, still = copy_file(name, source, target, clone=self._clones)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno in _FATAL:
                    raise
                self._leave(path, git, unreadable(error))
                return
            if status.st_nlink > 1:
                self._twins[status.st_dev, status.st_ino] = path
        if not git:
            self.copied.files[path] = stamp_of(status)
            if not still:
                self.copied.restless.add(path)

    def _copy_link(
        self, name: str, path: str, status: os.stat_result, source: int, target: int, git: bool
    ) -> None:
        try:
            leads = os.readlink(name, dir_fd=source)
        except OSError:
            self._leave(path, git, "was changed while it was copied")
            return
        if git and (leads.startswith("/") or ".." in leads.split("/")):
            self._leave(path, False, "leads out of the copy")
            return
        os.symlink(leads, name, dir_fd=target)
        os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=target, follow_symlinks=False)
        if git:
            return
        self.copied.others[path] = PathEntry(PathKind.LINK, 0, 0, status.st_mtime_ns, target=leads)
        if leads.startswith("/") and Path(os.path.normpath(leads)).is_relative_to(self._source):
            self.copied.leading_back.append(path)

    def _copy_git(self, path: str, status: os.stat_result, target: int) -> None:
        """Copy the git folder or file at `path` in such a way that git works in the copy."""
        if stat.S_ISDIR(status.st_mode):
            self._make_folder(path.rpartition("/")[2], target)
            self._waiting.append(_Folder(path, status, True))
            return
        reason = git_in_copies.LINKED
        if stat.S_ISREG(status.st_mode):
            reason = git_in_copies.copy_pointer(self._source, self._target, path)
        if not reason:
            return
        if path == ".git" and stat.S_ISREG(status.st_mode):
            found = git_in_copies.worktree_of(self._source)
            if found is not None:
                self._copy_worktree(*found)
                return
        self.copied.left_out.append(LeftOut(path, reason))

    def _copy_worktree(self, own: Path, common: Path) -> None:
        """Turn a linked work tree into a separate repository."""
        git = self._target / ".git"
        git.mkdir(0o700)
        mine = {
            os.path.relpath(Path(folder, name), own) for folder, _, names in os.walk(own) for name in names
        }
        for source, skip in ((common, {*mine, "worktrees"}), (own, git_in_copies.OF_WORKTREES)):
            copier = TreeCopier(source, git, clones=self._clones, stop=self._stop, skip=skip, git=True)
            copier.run()
        self.copied.repositories.append(".git")

    def _make_folder(self, name: str, target: int) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=target)
        except FileExistsError:
            if not self._git:
                raise

    def _leave(self, path: str, git: bool, reason: str) -> None:
        if not git:
            self.copied.left_out.append(LeftOut(path or ".", reason))


_FATAL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE))
"""Errors that make it impossible to copy any further file."""
