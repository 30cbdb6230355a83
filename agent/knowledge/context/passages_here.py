"""List of all passages that are kept back in a project, wherever in it they stand."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path, PurePosixPath

from agent.core.home import Home
from agent.knowledge.context.context_files import (
    PROJECT_NAMES,
    files_of_folders,
    project_files,
    repository_root,
    soul_file,
)
from agent.knowledge.context.quarantine import KeptPassage
from tools.files.searching import SearchEnding, SearchRequest, records
from tools.results import ToolError

MOST_FOLDERS = 2_000
"""Folders with project files that are looked into."""


def passages_here(home: Home, workspace: Path, limit: int) -> tuple[KeptPassage, ...]:
    """Those of SOUL.md and of the project, each once, whether a person let them in or not.

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
