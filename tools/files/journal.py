"""The journal of an edit of several files, kept until it is done.

A change of one file is whole or not at all by itself; one of several files is not when the
process is killed in between. So the plan is on the disk before the first effect, and whoever
starts next finishes it. A file that somebody changed since then stays as it is, and is named.

The folder must be out of reach of programs: what is written there will be done.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools.files.planning import Delete, Effect, OnDisk, Rename, Write
from tools.kit.files import (
    TEMPORARY_PREFIX,
    create_file,
    entry_status,
    lock_file,
    make_folders,
    open_folder,
    read_bytes,
    write_atomically,
)

FORMAT = 1
SETTING = "files.journal"
"""The option of tools that names the folder; without it nothing is written down."""
_PRIVATE = 0o600
_NEW = ".new-"


@dataclass(frozen=True, slots=True)
class Finished:
    """A change of several files that was cut off, and what became of it at the next start."""

    task: str
    """Whose change it was."""
    workspace: str
    done: tuple[str, ...]
    """Paths that are as they were meant to be."""
    left: tuple[str, ...]
    """Paths that somebody changed since; they stay as they are."""

    def sentence(self) -> str:
        """For person and model."""
        text = f"A patch was cut off; it is finished now: {_names(self.done)}." if self.done else ""
        if self.left:
            text += f" {_names(self.left)} changed since and stay{'s' * (len(self.left) == 1)} as found."
        return text.strip()


@contextmanager
def written_down(folder: Path | None, effects: Sequence[Effect], task: str, workspace: Path) -> Iterator[str]:
    """Keep a plan of several effects on the disk while it is carried out.

    Gives the beginning of the names of temporary files, by which what is left of them is found.
    Raises `OSError`; nothing was begun then.
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
    """Finish every change that was cut off. One that a living process works on is let be. Blocking."""
    found: list[Finished] = []
    for path in sorted((*folder.glob("*.json"), *folder.glob(f"{_NEW}*"))) if folder.is_dir() else []:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if lock_file(descriptor, seconds=0) and os.path.samestat(os.fstat(descriptor), path.lstat()):
                    # What was not written down to the end was not begun either.
                    done = None if path.name.startswith(_NEW) else _finished(path)
                    found += [done] if done is not None else []
                    path.unlink()
            finally:
                os.close(descriptor)
    return found


def _finished(path: Path) -> Finished | None:
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
        (done if whole else left).append(_shown(name, workspace))
    for effect in effects:
        for name in (effect.get("path"), effect.get("target"), effect.get("source")):
            if name:
                _tidy(Path(name).parent, token)
    return Finished(task, workspace, tuple(dict.fromkeys(done)), tuple(dict.fromkeys(left)))


def _write(effect: dict[str, Any]) -> bool:
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


def _rename(effect: dict[str, Any]) -> bool:
    source, target = Path(effect["source"]), Path(effect["target"])
    if entry_status(source) is None:
        return entry_status(target) is not None
    if entry_status(target) is not None or not _is_before(source, effect["before"]):
        return False
    make_folders(target.parent)
    with open_folder(source.parent) as one, open_folder(target.parent) as other:
        os.rename(source.name, target.name, src_dir_fd=one, dst_dir_fd=other)
    return True


def _delete(effect: dict[str, Any]) -> bool:
    path = Path(effect["path"])
    if entry_status(path) is None:
        return True
    if not _is_before(path, effect["before"]):
        return False
    with open_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)
    return True


_ACTS: dict[str, Callable[[dict[str, Any]], bool]] = {"write": _write, "rename": _rename, "delete": _delete}


def _is_before(path: Path, before: dict[str, Any] | None) -> bool:
    """Whether what stands at a path is what the plan was made from."""
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
    """Remove the temporary files of a change; contents that were to go are among them."""
    with suppress(OSError), open_folder(folder) as descriptor:
        for name in os.listdir(folder):  # noqa: PTH208
            if name.startswith(f"{TEMPORARY_PREFIX}{token}"):
                os.unlink(name, dir_fd=descriptor)


def _shown(path: str, workspace: str) -> str:
    return path.removeprefix(f"{workspace}/")


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 12:,} more" if len(paths) > 12 else ""
    return ", ".join(paths[:12]) + more
