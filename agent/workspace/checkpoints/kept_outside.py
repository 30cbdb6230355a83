"""Files outside of the workspace that a restore may touch: notes and skills in the home of Hermes.

Steps name them by absolute paths. What a step says is read from a file, so each path is looked at before
it is used: a log that was tampered with leads nowhere else.
"""

from __future__ import annotations

from pathlib import Path

from agent.core.home import Home
from agent.workspace.checkpoints.entries import PathEntry, PathKind, is_outside
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.units import TOP

ELSEWHERE = "is outside of the workspace and no note or skill of Hermes, so it is left alone"
LINKED = "would become another name of a file outside of the workspace, so it is left alone"


def refusal(path: str, entry: PathEntry | None, objects: ObjectStore) -> str:
    """Why a restore leaves `path` of a step alone, which is to become `entry`; empty where it may be touched.

    `objects` are those of the checkpoints in the home of Hermes. Looks at the disk.
    """
    if path == TOP and (entry is None or entry.kind is PathKind.FOLDER):
        return ""
    if not is_plain(path) or (is_outside(path) and not _is_ours(path, objects)):
        return ELSEWHERE
    twin = "" if entry is None else entry.twin
    if twin and (is_outside(twin) != is_outside(path) or refusal(twin, None, objects)):
        return LINKED
    return ""


def is_plain(path: str) -> bool:
    """Whether a path of a step leads where its names say: no part of it is empty or leads upwards. Pure."""
    parts = path.removeprefix("/").split("/")
    return "\0" not in path and not any(part in ("", ".", "..") for part in parts)


def is_own_folder(path: str, wanted: PathEntry | None, objects: ObjectStore) -> bool:
    """Whether a path is the folder of notes or of skills itself, which stays in any case. Pure.

    So does the workspace itself, once it is there.
    """
    if path == TOP:
        return wanted is None
    return Path(path) in _folders(objects) and (wanted is None or wanted.kind is PathKind.FOLDER)


def _folders(objects: ObjectStore) -> tuple[Path, Path]:
    home = Home(objects.folder.parent.parent)
    return home.memories, home.skills


def _is_ours(path: str, objects: ObjectStore) -> bool:
    place = Path(path)
    try:
        folder = place.parent.resolve()
        roots = [each.resolve() for each in _folders(objects)]
    except (OSError, RuntimeError):
        return False
    # A link in the path leads elsewhere, whatever the path begins with.
    return folder == place.parent and any(place != root and place.is_relative_to(root) for root in roots)
