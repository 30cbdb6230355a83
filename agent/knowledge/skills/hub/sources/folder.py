"""Folders on this machine as sources of skills."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent.knowledge.skills.hub.bundle import HubError, HubMissingError, HubRefusedError
from agent.knowledge.skills.hub.git import TreeEntry, TreeSource
from tools.kit.files import read_bytes
from tools.text.words import brief

_MOST_ENTRIES = 20_000
_PASSED_OVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})


@dataclass(frozen=True)
class FolderTree:
    """The files below a folder. Links are not followed."""

    root: Path

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """Return all files. Raises `HubError` for a folder that is unreadable or has too many files."""
        return self._entries

    @cached_property
    def _entries(self) -> tuple[TreeEntry, ...]:
        found = []
        for entry in self._walk():
            found.append(entry)
            if len(found) > _MOST_ENTRIES:
                raise HubError(f"{brief(self.root, 200)} has too many files; name the folder of the skill.")
        return tuple(found)

    @property
    def revision(self) -> str:
        """Return an empty text: a folder has no versions, only hashes of its files."""
        return ""

    def _walk(self) -> Iterator[TreeEntry]:
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as scanned:
                    entries = sorted(scanned, key=lambda each: each.name)
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        if entry.name not in _PASSED_OVER:
                            waiting.append(Path(entry.path))
                        continue
                    yield self._entry(Path(entry.path), status)
            except OSError as error:
                cause = error.strerror or str(error)
                raise HubError(f"{brief(folder, 200)} cannot be read: {cause}.") from None

    def _entry(self, path: Path, status: os.stat_result) -> TreeEntry:
        name = path.relative_to(self.root).as_posix()
        if stat.S_ISLNK(status.st_mode):
            return TreeEntry(name, "link", 0)
        if not stat.S_ISREG(status.st_mode):
            return TreeEntry(name, "other", 0)
        return TreeEntry(name, "file", status.st_size, executable=bool(status.st_mode & 0o111))

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Return the contents by path. Raises `HubRefusedError` for a file that grew or changed its type."""
        found: dict[str, bytes] = {}
        for entry in wanted:
            try:
                found[entry.path] = read_bytes(self.root / entry.path, limit)[0]
            except (OSError, ValueError) as error:
                cause = getattr(error, "strerror", None) or str(error)
                raise HubRefusedError(f"{brief(entry.path)} cannot be taken: {brief(cause)}.") from None
        return found


def folder_source(name: str, path: str, base: Path, *, is_builtin: bool = False) -> TreeSource:
    """Return a source for the skills in a folder; a relative path counts from `base`. Raises
    `HubMissingError`.
    """
    text = path.removeprefix("file://")
    try:
        root = Path(os.path.realpath(base / Path(text).expanduser()))
        is_folder = root.is_dir()
    except (OSError, RuntimeError, ValueError):
        raise HubMissingError(f"{brief(path, 200)!r} is not a path of a folder.") from None
    if not is_folder and root.name in ("SKILL.md", "skill.md") and root.is_file():
        root, is_folder = root.parent, True
    if not is_folder:
        raise HubMissingError(f"There is no folder {brief(root, 200)}.")
    tree = FolderTree(root)
    repository = "official" if is_builtin else ""
    return TreeSource(name, "folder", str(root), tree, repository=repository)
