"""Places of work trees, by their indexes: beside `.git`, where settings say, or where a file leads back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from agent.workspace.checkpoints.units import TOP, UnitPart, is_git_name
from agent.workspace.repository import git_folder
from tools.kit.files import read_bytes

_MAX_BYTES = 1_000_000
_TREE = re.compile(rb"^\s*worktree\s*=\s*\"?([^\"\n]*)\"?\s*$", re.IGNORECASE | re.MULTILINE)


def tree_of_index(root: Path, part: UnitPart) -> str | None:
    """The work tree of an index, as a folder of the workspace; None where it is not known. Blocking."""
    inner = root / part.inner
    own = part.rest.rpartition("/")[0]
    if own:
        pointer = _read(inner / own / "gitdir").strip()
        return (
            _inside(root, Path(os.path.normpath(inner / own / os.fsdecode(pointer))).parent)
            if pointer
            else None
        )
    if found := _TREE.findall(_read(inner / "config")):
        return _inside(root, Path(os.path.normpath(inner / os.fsdecode(found[-1].strip()))))
    if is_git_name(inner.name):
        return _inside(root, inner.parent)
    return next((_inside(root, place) for place in _near(root, inner) if _leads_to(place, inner)), None)


def _near(root: Path, inner: Path) -> Iterator[Path]:
    """Folders in which a file `.git` may lead to a repository: above it, and beside it."""
    for place in inner.parents:
        yield place
        if place == root:
            break
    try:
        yield from sorted(each for each in inner.parent.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:
        return


def _leads_to(place: Path, inner: Path) -> bool:
    return (place / ".git").is_file() and git_folder(place) == inner.resolve()


def _inside(root: Path, place: Path) -> str | None:
    try:
        found = place.resolve().relative_to(root).as_posix()
    except (OSError, ValueError, RuntimeError):
        return None
    return TOP if found == "." else found


def _read(file: Path) -> bytes:
    try:
        return read_bytes(file, _MAX_BYTES)[0]
    except (OSError, ValueError):
        return b""
