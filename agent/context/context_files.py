"""Context files: who the agent is (SOUL.md) and what a project wants (HERMES.md, AGENTS.md, CLAUDE.md).

Only plain files are read, never a device or a link that leads out of the
project, and never more than a bounded part.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tools.files.descriptors import open_file
from tools.safe_text import clean

PROJECT_NAMES = ((".hermes.md", "HERMES.md"), ("AGENTS.md",), ("CLAUDE.md",))
"""Project files by preference; the first one found is the only one read."""

MAX_BYTES = 4_000_000
"""Bytes read of one file, whatever limit is set."""

HEAD, TAIL = 0.7, 0.2
"""Shares of the limit that the beginning and the end of a long file get."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file as the model is shown it. `truncated` tells that its middle was left out."""

    name: str
    path: Path
    text: str
    truncated: bool
    notes: tuple[str, ...] = ()
    """What a person should know of how it is shown."""


def paragraphs(text: str) -> tuple[str, ...]:
    """The pieces between empty lines; a block of code is one piece. At least one. Pure."""
    pieces: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        if line.strip() or fence:
            pieces[-1].append(line)
        elif pieces[-1]:
            pieces.append([])
    return tuple("\n".join(piece) for piece in pieces if piece) or ("",)


def soul_file(path: Path, limit: int) -> ContextFile | None:
    """The identity of the agent, if the person wrote one. `limit` is in characters."""
    return _read(path, limit, path.parent)


def project_file(workspace: Path, limit: int) -> ContextFile | None:
    """The project file that counts for the workspace. `limit` is in characters.

    Each kind of file is looked for from the workspace up to the root of its
    repository before the next kind is; without a repository only the workspace
    itself is looked at.
    """
    folders = _up_to_root(workspace)
    for names in PROJECT_NAMES:
        for folder in folders:
            for name in names:
                found = _read(folder / name, limit, folders[-1])
                if found is not None:
                    return found
    return None


def _up_to_root(workspace: Path) -> list[Path]:
    """The workspace and the folders above it up to the one that holds `.git`."""
    folders = [workspace, *workspace.parents]
    for index, folder in enumerate(folders):
        if os.path.lexists(folder / ".git"):
            return folders[: index + 1]
    return [workspace]


def _read(path: Path, limit: int, inside: Path) -> ContextFile | None:
    """A plain file below `inside`, or None if there is none, it is empty, or it cannot be read."""
    if limit <= 0:
        return None
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(inside.resolve()):
            return None
        with os.fdopen(open_file(real), "rb") as file:
            content = file.read(MAX_BYTES)
    except (OSError, RuntimeError, ValueError):
        return None
    text = clean(content.decode("utf-8-sig", "replace")).strip()
    if not text:
        return None
    return ContextFile(path.name, path, _shortened(text, limit, path), len(text) > limit)


def _shortened(text: str, limit: int, path: Path) -> str:
    if len(text) <= limit:
        return text
    head, tail = int(limit * HEAD), int(limit * TAIL)
    left_out = len(text) - head - tail
    mark = f"\n\n[… {left_out:,} characters left out; the whole file is {path} …]\n\n"
    return text[:head] + mark + (text[-tail:] if tail else "")
