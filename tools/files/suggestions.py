"""Near names for a path that leads nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from tools.files.paths import shown
from tools.results import ToolError

_MOST = 3
_CLOSE = 0.6
_MAX_ENTRIES = 5_000
"""Entries of the tree that are looked at."""
_SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target"}
)


def missing(path: Path, name: str, workspace: Path) -> ToolError:
    """The error for a file that does not exist, with the names that may have been meant."""
    near = near_names(path, workspace)
    if not near:
        return ToolError(f"{name} does not exist; use search with target files to find it.")
    return ToolError(f"{name} does not exist. Did you mean {' or '.join(near)}?", similar=near)


def near_names(path: Path, workspace: Path) -> list[str]:
    """Up to three existing paths like `path`: in its folder first, then anywhere in the workspace."""
    found: list[Path] = []
    try:
        siblings = sorted(entry.name for entry in os.scandir(path.parent))[:_MAX_ENTRIES]
    except OSError:
        siblings = []
    found.extend(path.parent / name for name in _close_to(path.name, siblings))
    if len(found) < _MOST:
        elsewhere = list(_files(workspace))
        same = [file for file in elsewhere if file.name.lower() == path.name.lower()]
        close = _close_to(path.name, sorted({file.name for file in elsewhere}))
        found.extend(same)
        found.extend(file for name in close for file in elsewhere if file.name == name)
    unique = dict.fromkeys(file for file in found if file != path)
    return [shown(file, workspace) for file in list(unique)[:_MOST]]


def _close_to(name: str, names: list[str]) -> list[str]:
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.lower(), candidate)
    wanted = name.lower()
    same_stem = [real for low, real in folded.items() if Path(low).stem == Path(wanted).stem]
    close = [folded[low] for low in get_close_matches(wanted, list(folded), n=_MOST, cutoff=_CLOSE)]
    return list(dict.fromkeys([*close, *same_stem]))[:_MOST]


def _files(root: Path) -> Iterator[Path]:
    """Files below `root`, upper levels first, until enough entries were seen."""
    waiting = [root]
    seen = 0
    while waiting:
        folder = waiting.pop(0)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MAX_ENTRIES:
                return
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)
