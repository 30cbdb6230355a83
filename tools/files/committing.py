"""Carrying out a plan completely or not at all, with a journal that the next start can finish."""

from __future__ import annotations

import base64
import errno
import json
import logging
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools.files.access import explain
from tools.files.planning import Delete, Effect, OnDisk, Rename, Write
from tools.kit.files import (
    TEMPORARY_PREFIX,
    create_file,
    entry_status,
    lock_file,
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
    """Raised if a file has changed since the plan was made. Nothing was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} changed meanwhile")
        self.path = path


def commit(effects: Sequence[Effect], name: Callable[[Path], str], token: str = "") -> list[Path]:
    """Carry out `effects` and return the folders that were created for them.

    `token` begins the names of temporary files. Raises `ChangedMeanwhile`, or `ToolError` for a disk failure;
    then everything is as before, or the message names what could not be undone.
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
        transaction.make_final()
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
        """Raise `ChangedMeanwhile` if the disk differs from the plan."""
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

    def make_final(self) -> None:
        """Make deletions final. Afterwards nothing can be undone. A file that cannot be deleted is kept under
        its temporary name.
        """
        for path in self._set_aside:
            try:
                _unlink(path)
            except OSError:
                log.warning("could not remove %s", path, exc_info=True)

    def undo(self) -> list[Path]:
        """Undo the finished steps, last first; return the paths for which that failed."""
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
        """Give a file whose content is not in memory a second name, if a later step can fail."""
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
    """Give or take the execute permission, for everyone who may read the file."""
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


FORMAT = 1
SETTING = "files.journal"
"""The tool option that names the journal's folder; without it nothing is recorded."""
_PRIVATE = 0o600
_NEW = ".new-"


@dataclass(frozen=True, slots=True)
class Finished:
    """An interrupted change of several files, and its outcome at the next start."""

    task: str
    """The task of the change."""
    workspace: str
    done: tuple[str, ...]
    """Paths that have the intended state."""
    left: tuple[str, ...]
    """Paths that were changed since by other programs or the user; they stay as found."""

    def sentence(self) -> str:
        """Return a sentence on the change and its outcome, for user and model."""
        text = f"A patch was cut off; it is finished now: {_names(self.done)}." if self.done else ""
        if self.left:
            text += f" {_names(self.left)} changed since and stay{'s' * (len(self.left) == 1)} as found."
        return text.strip()


@contextmanager
def written_down(folder: Path | None, effects: Sequence[Effect], task: str, workspace: Path) -> Iterator[str]:
    """Keep a plan of several effects on disk while it is carried out.

    Yields the prefix of the names of temporary files, by which leftovers are found. Raises `OSError` before
    any effect is carried out.
    """
    token = secrets.token_hex(8)
    if folder is None or len(effects) < 2:
        yield token
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{token}.json"
    record = {
        "format": FORMAT,
        "token": token,
        "task": task,
        "workspace": str(workspace),
        "effects": [_record(effect) for effect in effects],
    }
    beside = folder / f"{_NEW}{token}"
    descriptor = create_file(beside)
    try:
        lock_file(descriptor)
        with os.fdopen(os.dup(descriptor), "w", encoding="ascii") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
        yield token
    finally:
        for name in (beside, path):
            name.unlink(missing_ok=True)
        os.close(descriptor)


def finish_all(folder: Path) -> list[Finished]:
    """Finish every interrupted change, except those of a living process. Blocking."""
    found: list[Finished] = []
    for path in sorted((*folder.glob("*.json"), *folder.glob(f"{_NEW}*"))) if folder.is_dir() else []:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if lock_file(descriptor, seconds=0) and os.path.samestat(os.fstat(descriptor), path.lstat()):
                    # What was not written down to the end was not begun either.
                    done = None if path.name.startswith(_NEW) else _finish_file(path)
                    found += [done] if done is not None else []
                    path.unlink()
            finally:
                os.close(descriptor)
    return found


def _finish_file(path: Path) -> Finished | None:
    try:
        record = json.loads(path.read_bytes())
        if record["format"] != FORMAT:
            return None
        token, effects = str(record["token"]), list(record["effects"])
        task, workspace = str(record["task"]), str(record["workspace"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    done: list[str] = []
    left: list[str] = []
    for effect in effects:
        name = str(effect.get("target") or effect.get("path"))
        try:
            whole = _ACTS[effect["kind"]](effect)
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        (done if whole else left).append(_relative_name(name, workspace))
    for effect in effects:
        for name in (effect.get("path"), effect.get("target"), effect.get("source")):
            if name:
                _tidy(Path(name).parent, token)
    return Finished(task, workspace, tuple(dict.fromkeys(done)), tuple(dict.fromkeys(left)))


def _finish_write(effect: dict[str, Any]) -> bool:
    path, data = Path(effect["path"]), base64.b64decode(effect["data"])
    status = entry_status(path)
    if status is not None and _digest(path) == sha256(data).hexdigest():
        return True
    if not _is_before(path, effect["before"]):
        return False
    like = Path(effect["like"]) if effect["like"] else None
    make_folders(path.parent)
    like = like if like and entry_status(like) else None
    write_atomically(path, data, follow_links=False, like=like, for_person=True)
    if effect["executable"] is not None:
        mode = path.lstat().st_mode & 0o7777
        path.chmod(mode | (mode & 0o444) >> 2 if effect["executable"] else mode & ~0o111)
    return True


def _finish_rename(effect: dict[str, Any]) -> bool:
    source, target = Path(effect["source"]), Path(effect["target"])
    if entry_status(source) is None:
        return entry_status(target) is not None
    if entry_status(target) is not None or not _is_before(source, effect["before"]):
        return False
    make_folders(target.parent)
    with open_folder(source.parent) as one, open_folder(target.parent) as other:
        os.rename(source.name, target.name, src_dir_fd=one, dst_dir_fd=other)
    return True


def _finish_delete(effect: dict[str, Any]) -> bool:
    path = Path(effect["path"])
    if entry_status(path) is None:
        return True
    if not _is_before(path, effect["before"]):
        return False
    with open_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)
    return True


_ACTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "write": _finish_write,
    "rename": _finish_rename,
    "delete": _finish_delete,
}


def _is_before(path: Path, before: dict[str, Any] | None) -> bool:
    """Return whether a path still has the state that it had before the change."""
    status = entry_status(path)
    if status is None or before is None:
        return status is None and before is None
    if before["digest"]:
        return _digest(path) == before["digest"]
    return list(OnDisk(status).mark) == before["mark"]


def _digest(path: Path) -> str:
    try:
        return sha256(read_bytes(path)[0]).hexdigest()
    except OSError:
        return ""


def _record(effect: Effect) -> dict[str, Any]:
    before = None if effect.before is None else _before(effect.before)
    match effect:
        case Write():
            return {
                "kind": "write",
                "path": str(effect.path),
                "data": base64.b64encode(effect.data).decode("ascii"),
                "like": str(effect.like) if effect.like else "",
                "executable": effect.executable,
                "before": before,
            }
        case Rename():
            target = str(effect.target)
            return {"kind": "rename", "source": str(effect.source), "target": target, "before": before}
        case Delete():
            return {"kind": "delete", "path": str(effect.path), "before": before}


def _before(before: OnDisk) -> dict[str, Any]:
    digest = sha256(before.data).hexdigest() if before.data is not None else ""
    return {"digest": digest, "mark": list(before.mark)}


def _tidy(folder: Path, token: str) -> None:
    """Remove the temporary files of a change, including contents to be deleted."""
    with suppress(OSError), open_folder(folder) as descriptor:
        for name in os.listdir(folder):  # noqa: PTH208
            if name.startswith(f"{TEMPORARY_PREFIX}{token}"):
                os.unlink(name, dir_fd=descriptor)


def _relative_name(path: str, workspace: str) -> str:
    return path.removeprefix(f"{workspace}/")


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 12:,} more" if len(paths) > 12 else ""
    return ", ".join(paths[:12]) + more
