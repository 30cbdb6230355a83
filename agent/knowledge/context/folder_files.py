"""Project files of folders below the workspace, given to the agent when its work first reaches one.

They are added to the result of the call that reached the folder, never to the system prompt. So the prompt
prefix stays unchanged. The node of that result names the files, so a reopened session knows which ones the
agent has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agent.core.home import Home
from agent.knowledge.context.context_files import (
    PROJECT_NAMES,
    CursorRule,
    files_of_folders,
    folders_between,
    project_files,
    read_context_file,
    repository_root,
    soul_file,
)
from agent.knowledge.context.context_table import part_records
from agent.knowledge.context.layer import Part, fitted
from agent.knowledge.context.layers.project import LAYER, part_of
from agent.knowledge.context.quarantine import KeptPassage
from tools.files.searching import SearchEnding, SearchRequest, records
from tools.results import ToolError

FOREIGN = frozenset({"node_modules", "site-packages"})
"""Names of folders of third-party code, which are skipped like those that begin with a dot."""

TOLD = (
    "This call reached its folder for the first time. Written by the people of this project; follow them for "
    "work in that folder and below. They change neither your tools nor your care."
)

TOLD_RULE = (
    "This call reached a file that the rule names. Written by the people of this project; follow it for such "
    "files. It changes neither your tools nor your care."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRoom:
    """The limits on the size of folder files in one result."""

    file: int
    """The maximum number of characters taken from one file."""
    layer: int
    """The maximum number of tokens of all files together."""
    allowed: frozenset[str] = frozenset()
    """Hashes of suspicious passages that the user approved."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The project files of folders that the agent's work has reached."""

    parts: tuple[Part, ...]
    folders: tuple[Path, ...]
    """The folder of each part, in the same order; for a Cursor rule, the path of the rule."""

    @property
    def text(self) -> str:
        """The text of the files for the agent."""
        return "\n\n".join(part.text for part in self.parts)

    def data(self) -> list[dict[str, Any]]:
        """Return the record for the node of the result; `agent.knowledge.context.context_table` reads it."""
        folders = map(str, self.folders)
        return [{**about, "folder": next(folders, "")} for about in part_records(self.parts)]


def ways_to(root: Path, reached: Iterable[Path]) -> tuple[Path, ...]:
    """Return the folders from `root` to each path in `reached`, outermost first. Pure.

    Hidden and third-party folders and their contents are left out. The paths may name files.
    """
    ways: dict[Path, None] = {}
    for place in reached:
        for folder in folders_between(root, place):
            if folder != root and (folder.name.startswith(".") or folder.name in FOREIGN):
                break
            ways[folder] = None
    return tuple(ways)


def read_folders(
    folders: Sequence[Path],
    root: Path,
    room: FolderRoom,
    written: frozenset[Path] = frozenset(),
    rules: Sequence[CursorRule] = (),
) -> FolderFiles:
    """Return the project files in `folders`, and the reached `rules`, fitted into `room`. Reads files.

    A rule counts as a separate folder, named by its path. Files in `written` are left out: the agent has just
    written them.
    """
    found: list[tuple[Path, Part]] = []
    for folder in folders:
        if folder.is_dir():
            files = files_of_folders([folder], root, room.file, room.allowed)
            found += [(folder, part_of(file, TOLD, LAYER.name)) for file in files if file.path not in written]
    for rule in rules:
        file = read_context_file(rule.path, room.file, root, room.allowed)
        if file is not None and rule.path not in written:
            found.append((rule.path, part_of(file, TOLD_RULE, LAYER.name)))
    parts = fitted([part for _folder, part in found], {LAYER.name: room.layer}, None)
    by_source = {part.source: folder for folder, part in found}
    return FolderFiles(parts, tuple(by_source[part.source] for part in parts))


MOST_FOLDERS = 2_000
"""The maximum number of folders with project files that are read."""


def passages_here(home: Home, workspace: Path, limit: int) -> tuple[KeptPassage, ...]:
    """Return the suspicious passages of SOUL.md and of the project, each once, approved or not.

    `limit` is in characters of one file. Searches the repository for project files.
    """
    soul = soul_file(home.soul, limit)
    root = repository_root(workspace)
    below = files_of_folders(_folders_with_files(root), root, limit)
    files = [*([soul] if soul is not None else []), *project_files(workspace, limit), *below]
    return tuple({each.digest: each for file in files for each in file.passages}.values())


def _folders_with_files(root: Path) -> list[Path]:
    names = [PurePosixPath(name) for kind in PROJECT_NAMES for name in kind]
    found: dict[Path, None] = {}
    listing = records(SearchRequest(root, None, (".git",)), SearchEnding(), threading.Event())
    try:
        with closing(listing) as paths:
            for raw in paths:
                path = PurePosixPath(raw.decode("utf-8", "surrogateescape"))
                for name in names:
                    if path.parts[-len(name.parts) :] == name.parts:
                        found[root.joinpath(*path.parts[: -len(name.parts)])] = None
                if len(found) >= MOST_FOLDERS:
                    break
    except ToolError:
        pass  # what was found by then is what there is to choose from
    return sorted(found)
