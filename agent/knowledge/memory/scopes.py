"""The three memory scopes: general notes, notes about the user, and notes of one project."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.files.atomic_swap import exchange, move_new
from tools.kit.files import open_folder, sync_folder, write_new

Scope = Literal["memory", "user", "project"]
SCOPES: tuple[Scope, ...] = ("memory", "user", "project")

LIMITS: dict[Scope, int] = {"memory": 2_200, "user": 1_375, "project": 2_200}
"""The character limit of each scope."""

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
    """The folders of the memory files."""

    root: Path
    """The folder `memories` of the Hermes home."""

    def path(self, scope: Scope, project: Path) -> Path:
        """Return the file of a scope; `project` is the root of the current repository."""
        if scope == "user":
            return self.root / "USER.md"
        if scope == "memory":
            return self.root / "MEMORY.md"
        return self.root / "projects" / project_id(project) / "MEMORY.md"


def project_root(workspace: Path) -> Path:
    """Return the root of the repository that contains the workspace; without one, the workspace."""
    resolved = workspace.resolve()
    for folder in (resolved, *resolved.parents):
        if (folder / ".git").exists():
            return folder
    return resolved


def project_id(root: Path) -> str:
    """Return a readable folder name for a project, different for each project."""
    readable = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in root.name)
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()
    return f"{readable[:40].strip('-') or 'project'}-{digest[:12]}"


def block(scope: Scope, entries: tuple[str, ...], used: int, limit: int) -> str:
    """Return a memory as text for the system prompt; empty if there are no entries."""
    if not entries:
        return ""
    share = round(100 * used / limit)
    body = "\n§\n".join(entries)
    return f"{RULE}\n{TITLES[scope]} [{share}% — {used:,}/{limit:,} chars]\n{RULE}\n{body}"


_WHOLE, _PART = ".tmp", ".part"
"""Name endings of a complete version next to the file, and of one being written."""
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def replace_content(path: Path, content: bytes, seen: bytes | None) -> bool:
    """Replace the file and flush it to disk. Return False without writing if its content is not `seen`.

    `seen` is the content read before, None if there was no file. Raises `OSError`.
    """
    beside = f".{path.name}.{secrets.token_hex(8)}{_WHOLE}"
    with open_folder(path.parent) as folder:
        try:
            _write(folder, f"{beside}{_PART}", content)
            os.rename(f"{beside}{_PART}", beside, src_dir_fd=folder, dst_dir_fd=folder)
            if seen is not None and not os.access(path.name, os.W_OK, dir_fd=folder):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            if seen is None:
                move_new(folder, beside, path.name)
            else:
                exchange(folder, beside, path.name)
                if _read(folder, beside, len(seen) + 1) != seen:
                    exchange(folder, beside, path.name)
                    return False
        except (FileExistsError, FileNotFoundError):
            return False  # it came, or went, between reading and writing
        finally:
            # After a change back this holds our version, and else the one that was read; unless somebody
            # wrote twice within the two steps, and then it stays for `leftovers` to find.
            _discard(folder, beside, (content, seen))
        sync_folder(folder)
    return True


def leftovers(path: Path) -> list[Path]:
    """Return complete versions left by killed writes, and delete incomplete ones. The lock must be held."""
    try:
        for part in path.parent.glob(f".{path.name}.*{_WHOLE}{_PART}"):
            part.unlink(missing_ok=True)
        return sorted(path.parent.glob(f".{path.name}.*{_WHOLE}"))
    except OSError:
        return []


def _write(folder: int, name: str, content: bytes) -> None:
    write_new(name, content, folder=folder, durable=True)


def _read(folder: int, name: str, limit: int) -> bytes:
    with os.fdopen(os.open(name, _OLD, dir_fd=folder), "rb") as file:
        return file.read(limit)


def _discard(folder: int, name: str, known: tuple[bytes | None, ...]) -> None:
    try:
        longest = max(len(each) for each in known if each is not None)
        if _read(folder, name, longest + 1) in known:
            os.unlink(name, dir_fd=folder)
    except OSError:
        pass  # it has become the file itself
