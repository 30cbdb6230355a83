"""The three memories: notes for everywhere, about the person, and of one project."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Scope = Literal["memory", "user", "project"]
SCOPES: tuple[Scope, ...] = ("memory", "user", "project")

LIMITS: dict[Scope, int] = {"memory": 2_200, "user": 1_375, "project": 2_200}
"""Characters that each holds."""

TITLES: dict[Scope, str] = {
    "memory": "MEMORY (your personal notes)",
    "user": "USER PROFILE (who the user is)",
    "project": "PROJECT MEMORY (notes on this project)",
}

SHOWN_IN: dict[Scope, str] = {
    "memory": "every session on this machine",
    "user": "every session on this machine",
    "project": "sessions in this project only",
}

RULE = "═" * 46


@dataclass(frozen=True, slots=True)
class MemoryFolders:
    """Where memories are kept."""

    root: Path
    """The folder `memories` of the home."""

    def path(self, scope: Scope, project: Path) -> Path:
        """The file of a scope; `project` is the root of the repository that is worked in."""
        if scope == "user":
            return self.root / "USER.md"
        if scope == "memory":
            return self.root / "MEMORY.md"
        return self.root / "projects" / project_id(project) / "MEMORY.md"


def project_root(workspace: Path) -> Path:
    """The root of the repository that holds the workspace, or the workspace itself."""
    resolved = workspace.resolve()
    for folder in (resolved, *resolved.parents):
        if (folder / ".git").exists():
            return folder
    return resolved


def project_id(root: Path) -> str:
    """A name for a project's folder: readable, and never that of another project."""
    readable = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in root.name)
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()
    return f"{readable[:40].strip('-') or 'project'}-{digest[:12]}"


def block(scope: Scope, entries: tuple[str, ...], used: int, limit: int) -> str:
    """A memory as the system prompt shows it; empty if there are no entries."""
    if not entries:
        return ""
    share = round(100 * used / limit)
    body = "\n§\n".join(entries)
    return f"{RULE}\n{TITLES[scope]} [{share}% — {used:,}/{limit:,} chars]\n{RULE}\n{body}"
