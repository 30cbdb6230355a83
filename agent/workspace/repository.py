"""Where a git repository keeps its things and which branch is checked out, read without running git."""

from __future__ import annotations

import os
from pathlib import Path

from tools.files.descriptors import read_bytes
from tools.text import clean

_MAX_BYTES = 4_096
_HEADS = "refs/heads/"
_SHORT_HASH = 7


def top_folder(folder: Path) -> Path | None:
    """The folder at or above `folder` that holds `.git`, or None outside a repository."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def git_folder(top: Path) -> Path | None:
    """The git folder of the work tree `top`: `.git`, or where the file `.git` of a worktree points to."""
    dot_git = top / ".git"
    if dot_git.is_dir():
        return dot_git
    line = _line(dot_git)
    if line is None or not line.startswith("gitdir:"):
        return None
    return _existing(top / line.removeprefix("gitdir:").strip())


def common_folder(git: Path) -> Path:
    """Where all worktrees of a repository share their things, such as `info/exclude`."""
    line = _line(git / "commondir")
    return (_existing(git / line) if line else None) or git


def branch(root: Path) -> str | None:
    """The branch checked out in the repository around `root`, for showing.

    A detached head gives the beginning of its commit's hash, anything that is
    no repository gives None. Runs nothing and never raises.
    """
    top = top_folder(root)
    git = git_folder(top) if top is not None else None
    head = _line(git / "HEAD") if git is not None else None
    if not head:
        return None
    if head.startswith("ref:"):
        name = head.removeprefix("ref:").strip()
        return _shown(name.removeprefix(_HEADS)) or None
    is_hash = len(head) in (40, 64) and all(character in "0123456789abcdef" for character in head)
    return head[:_SHORT_HASH] if is_hash else None


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
    return resolved if resolved.is_dir() else None


def _shown(name: str) -> str:
    return clean(name).replace("\n", " ").replace("\t", " ")
