"""The identity of the folder in which a step was made, in addition to its path.

A path may later lead to another project, and a project may get another path. So a folder is recognised by
device and inode, by a commit of its repository, or by a file exactly as a step left it. An identity is a text
of the form `device:inode:commit`. Folders that replaced each other within a session are listed in order,
separated by `|`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from agent.core.home import Home
from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathKind, Step, is_outside
from agent.workspace.git import common_folder, git_folder, run_git, top_folder
from tools.kit.files import read_bytes
from tools.kit.lazy_pattern import lazy_pattern

BETWEEN = "|"
_HASH = lazy_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LARGEST = 50_000_000
"""The limit in bytes on packed refs that are read."""


def identity(root: Path) -> str:
    """Return the identity of the folder; empty if it does not exist. Reads a few files, runs nothing."""
    try:
        status = root.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}:{_commit(root, status.st_dev, status.st_ino)}"


class FollowedRoot:
    """The identity of a workspace's folder, followed while a session works in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last = identity(root)

    def place(self, before: Sequence[Step], *, is_ours: bool) -> str:
        """Return the identity of the current folder, given the steps made `before`. Blocking.

        If a command of the session replaced the folder (`is_ours`), it counts as the same.
        """
        here, last = identity(self._root), self._last
        self._last = here or last
        return linked(last, here) if is_ours else succeeding(before, self._root) if here else last


def succeeding(before: Sequence[Step], root: Path) -> str:
    """Return the identity of `root`, joined with the last step's if that was made there too. Blocking."""
    here = identity(root)
    newest = [step for step in before[-1:] if step.place and not strangers([step], root)]
    return linked(newest[0].place, here) if newest else here


def linked(before: str, here: str) -> str:
    """Return the combined identity of a folder and of the one that it replaced."""
    if not before or not here or _folders(here)[0] in _folders(before):
        return here or before
    return f"{before}{BETWEEN}{here}"


def strangers(steps: Iterable[Step], root: Path) -> tuple[Step, ...]:
    """Return the steps that were made in a folder other than `root`. Blocking."""
    steps = tuple(steps)
    here = identity(root)
    same = {(step.place, step.root): is_same(step.place, step.root, root, here) for step in steps}
    for place, path in [each for each, told in same.items() if not told and each[1] == str(root)]:
        same[place, path] = _stands([step for step in steps if step.place == place], root)
    groups = [frozenset(_folders(place)) for place, _ in same]
    known = {each for (place, _), told in same.items() if told for each in _folders(place)}
    # A folder that replaced another one counts as that one.
    while fresh := {each for group in groups if group & known for each in group} - known:
        known |= fresh
    return tuple(
        step
        for step in steps
        if not same[step.place, step.root] and (not step.place or known.isdisjoint(_folders(step.place)))
    )


def is_same(place: str, path: str, root: Path, here: str = "") -> bool:
    """Return whether this identity and path are those of `root`, whose identity is `here`. Blocking."""
    here = here or identity(root)
    is_path = path == str(root)
    if not place or not here:
        # The record is older, or the folder is missing and cannot be another one.
        return is_path
    if _folders(here)[0] in _folders(place):
        # The inode of a removed folder is reused, often inside the folder that replaced it.
        return is_path or not root.is_relative_to(path)
    inode = here.split(":")[1]
    inodes = {each.split(":")[1] for each in _folders(place)}
    if is_path and inode in inodes and not os.path.ismount(root):
        # Devices are numbered differently after a restart.
        return True
    commits = {each.split(":")[2] for each in place.split(BETWEEN)} - {""}
    return (is_path or not os.path.lexists(path)) and any(_has_commit(root, each) for each in commits)


def _stands(steps: Iterable[Step], root: Path) -> bool:
    """Return whether a file is exactly as these steps left it, including its time, as in a restored copy."""
    after = {change.path: change.after for step in steps for change in step.changes}
    for path, entry in after.items():
        if entry is None or entry.kind is not PathKind.FILE or is_outside(path):
            continue
        with suppress(OSError):
            status = (root / path).lstat()
            if (status.st_size, status.st_mtime_ns) == (entry.size, entry.modified):
                return True
    return False


def _folders(place: str) -> list[str]:
    """Return `device:inode` of each folder in an identity."""
    return [each.rpartition(":")[0] for each in place.split(BETWEEN) if each.count(":") == 2]


@lru_cache(maxsize=64)
def _commit(root: Path, device: int, inode: int) -> str:
    """Return the commit first seen checked out in the repository at `root`; empty without one."""
    if top_folder(root) != root or (git := git_folder(root)) is None:
        return ""
    head = _text(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _HASH.fullmatch(head) else ""
    name, common = head.removeprefix("ref:").strip(), common_folder(git)
    loose = _text(common / name).strip()
    if _HASH.fullmatch(loose):
        return loose
    packed = re.search(rf"^({_HASH.pattern}) {re.escape(name)}$", _text(common / "packed-refs"), re.MULTILINE)
    return packed[1] if packed else ""


def _text(path: Path) -> str:
    try:
        return os.fsdecode(read_bytes(path, _LARGEST)[0])
    except (OSError, ValueError, RuntimeError):
        return ""


def _has_commit(root: Path, commit: str) -> bool:
    if top_folder(root) != root:
        return False
    try:
        return asyncio.run(run_git(root, "cat-file", "-e", commit)).code == 0
    except HermesError:
        return False


_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"),
    *("/System", "/Library", "/Applications", "/private/etc", "/private/var"),
)
_SHARED = ("/tmp", "/var/tmp", "/private/tmp", "/home", "/Users", "/mnt", "/media", "/opt", "/srv")


def refusal(root: Path, home: Home) -> str:
    """Return the reason why steps below `root` (resolved) are not recorded, as a sentence; empty if they are.

    Reading such a folder would take hours and gigabytes, or is not permitted.
    """
    person = Path.home() if _knows_home() else None
    within_temporary = any(Path(place) in root.parents for place in ("/tmp", "/var/tmp", "/private/tmp"))
    if root == Path("/"):
        return f"{root} is the whole system"
    if person is not None and (root == person or root in person.parents):
        return f"{root} is or holds the home folder"
    if str(root) in _SHARED:
        return f"{root} is shared by everybody"
    if not within_temporary and any(root == Path(place) or Path(place) in root.parents for place in _SYSTEM):
        return f"{root} belongs to the system"
    if home.root == root or home.root in root.parents:
        return f"{root} is where Hermes keeps its own files"
    try:
        owner = root.stat().st_uid
    except OSError as error:
        return f"{root} cannot be looked at: {(error.strerror or str(error)).lower()}"
    if owner != os.getuid():
        return f"{root} belongs to somebody else"
    return ""


def _knows_home() -> bool:
    try:
        Path.home()
    except RuntimeError:
        return False
    return True
