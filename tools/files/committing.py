"""Carrying out a plan: all of it, or nothing.

Before each effect the disk is compared with what the plan was made from. When
anything fails, what was done so far is undone in reverse order.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.files.failures import explain
from tools.files.planning import Delete, Effect, OnDisk, Rename, Write
from tools.kit.files import (
    TEMPORARY_PREFIX,
    entry_status,
    make_folders,
    open_folder,
    read_bytes,
    remove_folders,
    sync_folder,
    write_atomically,
)
from tools.results import ToolError

log = logging.getLogger(__name__)

Undo = Callable[[], None]

# Between comparing a file and replacing it no other call of this process may write.
_writing = threading.Lock()


class ChangedMeanwhile(Exception):  # noqa: N818 - asks for another try, not a failure
    """A file is no longer what the plan was made from. Nothing was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} changed meanwhile")
        self.path = path


def commit(effects: Sequence[Effect], name: Callable[[Path], str], token: str = "") -> list[Path]:
    """Carry out `effects` and return the folders that were created for them.

    `token` begins the names of temporary files. Raises `ChangedMeanwhile`, or `ToolError` for
    a failure of the disk; in both cases everything is as before, or the message names what could
    not be undone.
    """
    transaction = _Transaction(name, token, is_single=len(effects) == 1)
    with _writing:
        try:
            for effect in effects:
                transaction.check(effect)
            for effect in effects:
                transaction.carry_out(effect)
        except OSError as error:
            raise transaction.fail(error) from error
        except BaseException:
            transaction.undo()
            raise
        transaction.settle()
    return transaction.folders


class _Transaction:
    def __init__(self, name: Callable[[Path], str], token: str, *, is_single: bool) -> None:
        self._name = name
        self._token = token
        self._is_single = is_single
        self._undo: list[tuple[Path, Undo]] = []
        self._set_aside: list[Path] = []
        self._doing = "change the files"
        self.folders: list[Path] = []

    def check(self, effect: Effect) -> None:
        """Raise `ChangedMeanwhile` unless the disk is as the plan expects."""
        match effect:
            case Write(path=path, before=before):
                self._doing = f"write {self._name(path)}"
                _require(path, before)
            case Rename(source=source, target=target, before=before):
                self._doing = f"move {self._name(source)}"
                _require(source, before)
                _require(target, None)
            case Delete(path=path, before=before):
                self._doing = f"delete {self._name(path)}"
                _require(path, before)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Write():
                self._doing = f"write {self._name(effect.path)}"
                self._write(effect)
            case Rename():
                self._doing = f"move {self._name(effect.source)}"
                self._make_folders(effect.target.parent)
                self._rename(effect.source, effect.target)
            case Delete():
                # The file only changes its name until everything else has worked.
                self._doing = f"delete {self._name(effect.path)}"
                aside = self._aside(effect.path)
                self._rename(effect.path, aside)
                self._set_aside.append(aside)

    def settle(self) -> None:
        """Make deletions final. From here on nothing is undone: a file that resists stays set aside."""
        for path in self._set_aside:
            try:
                _unlink(path)
            except OSError:
                log.warning("could not remove %s", path, exc_info=True)

    def undo(self) -> list[Path]:
        """Take back what was done, last first; returns the paths for which that failed."""
        failed: list[Path] = []
        for path, step in reversed(self._undo):
            try:
                step()
            except OSError:
                failed.append(path)
        remove_folders(self.folders)
        self._undo.clear()
        return failed

    def fail(self, error: OSError) -> ToolError:
        failed = self.undo()
        sentence = str(explain(error, self._doing))
        if failed:
            names = ", ".join(self._name(path) for path in failed)
            return ToolError(f"{sentence} These files could not be put back: {names}.")
        return ToolError(f"{sentence} Nothing was changed.")

    def _write(self, effect: Write) -> None:
        path, before = effect.path, effect.before
        if before is None:
            self._make_folders(path.parent)
            write_atomically(
                path, effect.data, follow_links=False, like=effect.like, token=self._token, for_person=True
            )
            self._undo.append((path, lambda: _unlink(path)))
        elif (old := before.data) is None:
            self._keep(path)
            write_atomically(path, effect.data, follow_links=False, token=self._token)
        else:
            mode = stat.S_IMODE(before.status.st_mode)
            write_atomically(path, effect.data, follow_links=False, token=self._token)
            self._undo.append((path, lambda: write_atomically(path, old, mode, follow_links=False)))
        if effect.executable is not None:
            _set_executable(path, effect.executable)

    def _keep(self, path: Path) -> None:
        """Keep a file whose content is not in memory under a second name, if anything can fail after it."""
        if self._is_single:
            return
        aside = self._aside(path)
        with open_folder(path.parent) as folder:
            os.link(path.name, aside.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            self._set_aside.append(aside)
            self._undo.append((path, lambda: _put_back(aside, path)))

    def _rename(self, source: Path, target: Path) -> None:
        _rename(source, target)
        self._undo.append((source, lambda: _rename(target, source)))

    def _aside(self, path: Path) -> Path:
        return path.with_name(f"{TEMPORARY_PREFIX}{self._token}{secrets.token_hex(8)}.tmp")

    def _make_folders(self, path: Path) -> None:
        self.folders.extend(make_folders(path))


def _require(path: Path, before: OnDisk | None) -> None:
    status = entry_status(path)
    if (status is None) != (before is None):
        raise ChangedMeanwhile(path)
    if status is None or before is None:
        return
    if before.data is None or not stat.S_ISREG(status.st_mode):
        same = OnDisk(status).mark == before.mark
    else:
        # Time stamps are too coarse to show two changes in a row, and may change over the same bytes.
        same = status.st_size == len(before.data) and read_bytes(path)[0] == before.data
    if not same:
        raise ChangedMeanwhile(path)


def _set_executable(path: Path, wanted: bool) -> None:
    """Let whoever may read the file run it, or nobody."""
    with open_folder(path.parent) as folder:
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.fchmod(descriptor, mode | (mode & 0o444) >> 2 if wanted else mode & ~0o111)
    finally:
        os.close(descriptor)


def _rename(source: Path, target: Path) -> None:
    with open_folder(source.parent) as source_folder, open_folder(target.parent) as target_folder:
        if entry_status(target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        os.rename(source.name, target.name, src_dir_fd=source_folder, dst_dir_fd=target_folder)
        sync_folder(target_folder)
        if source.parent != target.parent:
            sync_folder(source_folder)


def _put_back(aside: Path, path: Path) -> None:
    with open_folder(path.parent) as folder:
        os.replace(aside.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def _unlink(path: Path) -> None:
    with open_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)
        sync_folder(folder)
