"""Changes that are none: what a mere look at a unit, or packing it, writes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.workspace.checkpoints.entries import PathChange, UnitMark
from agent.workspace.checkpoints.git_index import lists_the_same
from agent.workspace.checkpoints.git_refs import holds_refs
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.unit_marks import is_folder
from agent.workspace.checkpoints.units import UnitPart, Units


def without_noise(
    changes: Sequence[PathChange],
    units: Units,
    marks: Mapping[str, UnitMark],
    root: Path,
    objects: ObjectStore,
) -> tuple[PathChange, ...]:
    """The changes; none where all of them only write down again what units say. Blocking.

    Beside a change that matters all others stay too: everything goes back byte for byte.
    """
    parts = ((units.part(change.path), change) for change in changes)
    if all(part is not None and _is_noise(part, change, marks, root, objects) for part, change in parts):
        return ()
    return tuple(changes)


def is_index(part: UnitPart) -> bool:
    """Whether a file is an index of git: that of the repository, or of one of its work trees."""
    rest = part.rest.split("/")
    return part.kind == "git" and rest[-1] == "index" and (len(rest) == 1 or rest[0] == "worktrees")


def _is_noise(
    part: UnitPart, change: PathChange, marks: Mapping[str, UnitMark], root: Path, objects: ObjectStore
) -> bool:
    if not part.rest:
        return False
    if part.role in ("bookkeeping", "beside"):
        return True
    if part.kind != "git":
        return False
    if holds_refs(part.rest) or (is_folder(change) and part.rest.startswith(("refs", "logs"))):
        refs = marks[part.inner].refs if part.inner in marks else {}
        return all(before == after for before, after in refs.values())
    folder = (root / change.path).parent
    return is_index(part) and lists_the_same(change.before, change.after, objects, folder)
