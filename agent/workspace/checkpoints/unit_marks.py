"""Marks in a step for the units it changed: their kinds, and the values of refs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step, UnitMark
from agent.workspace.checkpoints.git_keep import object_ids
from agent.workspace.checkpoints.git_refs import Refs, Side, Values, moved_refs
from agent.workspace.checkpoints.units import Units
from tools.kit.files import read_bytes

LARGEST = 50_000_000
"""The size limit in bytes of a file with refs."""


def unit_marks(
    changes: Sequence[PathChange], units: Units, before: Side, after: Side, root: Path | None = None
) -> dict[str, UnitMark]:
    """Return the marks of a step with these changes, by the folder of each unit.

    `root` is the workspace. If it is given, the objects of a repository created by the step are recorded too.
    Blocking.
    """
    found = units.of(change.path for change in changes)
    refs = ref_changes(changes, units, before, after)
    made = {change.path for change in changes if change.before is None}
    marks: dict[str, UnitMark] = {}
    for place, kind in found.places.items():
        objects = object_ids(root / place / "objects") if root and place in made and kind == "git" else ""
        marks[place] = UnitMark(kind, refs.get(place, {}), objects)
    return marks


def ref_changes(changes: Iterable[PathChange], units: Units, before: Side, after: Side) -> dict[str, Values]:
    """Return the changed refs with their values, by the folder of each repository."""
    rests: dict[str, set[str]] = {}
    for change in changes:
        part = units.part(change.path)
        if part is not None and part.kind == "git" and part.rest and not is_folder(change):
            rests.setdefault(part.inner, set()).add(part.rest)
    one, other = Refs(before), Refs(after)
    return {inner: moved_refs(inner, names, one, other) for inner, names in rests.items()}


def units_of(steps: Iterable[Step]) -> Units:
    """Return the units in which steps changed files."""
    return Units({place: mark.kind for step in steps for place, mark in step.units.items()})


def side(entries: Callable[[str], PathEntry | None], contents: Callable[[str], bytes]) -> Side:
    """Return a function that reads paths at one time; `contents` returns the bytes of a digest.

    It never raises.
    """

    def read(path: str) -> bytes | None:
        entry = entries(path)
        if entry is None or entry.kind is PathKind.FOLDER:
            return None
        if entry.kind is PathKind.LINK:
            return b"ref: " + os.fsencode(entry.target)
        if entry.digest is None or entry.size > LARGEST:
            return b""
        try:
            return contents(entry.digest)
        except (HermesError, OSError):
            return b""

    return read


def disk(root: Path, instead: Mapping[str, bytes | None] | None = None) -> Side:
    """Return a function that reads paths from disk, except for those in `instead`. It never raises."""

    def read(path: str) -> bytes | None:
        if instead is not None and path in instead:
            return instead[path]
        file = root / path
        try:
            if file.is_symlink():
                return b"ref: " + os.fsencode(file.readlink())
            return read_bytes(file, LARGEST)[0]
        except (OSError, ValueError):
            return None

    return read


def changed_sides(changes: Iterable[PathChange], contents: Callable[[str], bytes]) -> tuple[Side, Side]:
    """Return functions that read paths before and after the changes, as far as the changes contain them."""
    known = tuple(changes)
    before = {each.path: each.before for each in known}
    after = {each.path: each.after for each in known}
    return side(before.get, contents), side(after.get, contents)


def is_folder(change: PathChange) -> bool:
    """Return whether a folder is at the path before or after a change."""
    return PathKind.FOLDER in (change.before and change.before.kind, change.after and change.after.kind)
