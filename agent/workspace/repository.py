"""A git repository read without running git: where it keeps things, which branch is checked out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tools.kit.files import read_bytes
from tools.text.safe_text import clean

_MAX_BYTES = 4_096
_HEADS = "refs/heads/"
_SHORT_HASH = 7
_IN_TABLES = "ref: refs/heads/.invalid"
"""What `HEAD` says in every repository that keeps its refs in tables."""
_TABLE_BYTES = 20_000_000


def top_folder(folder: Path) -> Path | None:
    """The folder at or above `folder` that holds `.git`, or None outside a repository."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def git_folder(top: Path) -> Path | None:
    """The git folder of the work tree `top`: `.git`, or where the file `.git` of a worktree points to."""
    dot_git = top / ".git"
    # Unlike the method of paths, this one does not raise where a link leads to what is closed to us.
    if os.path.isdir(dot_git):  # noqa: PTH112
        return dot_git
    line = _line(dot_git)
    if line is None or not line.startswith("gitdir:"):
        return None
    return _existing(top / line.removeprefix("gitdir:").strip())


def common_folder(git: Path) -> Path:
    """Where all worktrees of a repository share their things, such as `info/exclude`.

    Only the folder of a linked work tree says so: in another one, `commondir` could have been put there to
    have settings read that somebody else wrote.
    """
    if git.parent.name != "worktrees":
        return git
    line = _line(git / "commondir")
    common = _existing(git / line) if line else None
    return common if common is not None and common == _existing(git.parent.parent) else git


@dataclass(frozen=True, slots=True)
class Checkout:
    """What is checked out: a branch or, where there is none, the beginning of the commit's hash."""

    name: str
    detached: bool = False


def checkout(root: Path) -> Checkout | None:
    """What is checked out in the repository around `root`, for showing; None outside of one.

    Runs nothing and never raises.
    """
    top = top_folder(root)
    git = git_folder(top) if top is not None else None
    head = _head(git) if git is not None else None
    if not head:
        return None
    if head.startswith("ref:"):
        name = _shown(head.removeprefix("ref:").strip().removeprefix(_HEADS))
        return Checkout(name) if name else None
    is_hash = len(head) in (40, 64) and all(character in "0123456789abcdef" for character in head)
    return Checkout(head[:_SHORT_HASH], detached=True) if is_hash else None


def branch(root: Path) -> str | None:
    """The name of what is checked out, whether a branch or a commit; None outside of a repository."""
    found = checkout(root)
    return found.name if found is not None else None


def _head(git: Path) -> str | None:
    head = _line(git / "HEAD")
    if head != _IN_TABLES:
        return head
    from agent.workspace.checkpoints.git_refs import HEAD, Refs
    from agent.workspace.checkpoints.units import TOP

    def read(path: str) -> bytes | None:
        try:
            return read_bytes(git / path, _TABLE_BYTES)[0]
        except (OSError, ValueError):
            return None

    return Refs(read).value(TOP, HEAD)


def _line(file: Path) -> str | None:
    """The first line of a small plain file, or None when there is no such file."""
    try:
        data, _ = read_bytes(file, _MAX_BYTES)
    except (OSError, ValueError, RuntimeError):
        return None
    return os.fsdecode(data).split("\n", 1)[0].strip()


def _existing(folder: Path) -> Path | None:
    try:
        resolved = folder.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    return resolved if os.path.isdir(resolved) else None  # noqa: PTH112


def _shown(name: str) -> str:
    return clean(name).replace("\n", " ").replace("\t", " ")
