"""Records in a step about the units that it changed: their kinds, and the values of refs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step, UnitMark
from agent.workspace.checkpoints.git_index import lists_the_same
from agent.workspace.checkpoints.git_keep import object_ids
from agent.workspace.checkpoints.git_refs import Refs, Side, Values, holds_refs, moved_refs
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.state_listings import says_the_same
from agent.workspace.checkpoints.units import UnitPart, Units
from tools.kit.files import read_bytes

LARGEST = 50_000_000
"""The size in bytes up to which a file with refs is read."""


def unit_marks(
    changes: Sequence[PathChange], units: Units, before: Side, after: Side, root: Path | None = None
) -> dict[str, UnitMark]:
    """Return the marks of a step with these changes, by the folder of each unit. Blocking.

    If `root`, the workspace, is given, the objects of a repository created by the step are included.
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
    """Return the units in which the steps changed files."""
    return Units({place: mark.kind for step in steps for place, mark in step.units.items()})


def side(entries: Callable[[str], PathEntry | None], contents: Callable[[str], bytes]) -> Side:
    """Return a function that reads paths at one time and never raises.

    `contents` returns the bytes with a digest.
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
    """Return a function that reads paths from disk, or from `instead` if they are there. It never raises."""

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
    """Return whether the path of a change is a folder before or after it."""
    return PathKind.FOLDER in (change.before and change.before.kind, change.after and change.after.kind)


def without_noise(
    changes: Sequence[PathChange],
    units: Units,
    marks: Mapping[str, UnitMark],
    root: Path,
    objects: ObjectStore,
    *,
    by_others: bool = False,
) -> tuple[PathChange, ...]:
    """Return the changes, or none if all of them only rewrite the same state of units. Blocking.

    If one change matters, all are returned, because everything is restored byte for byte. If `by_others`,
    files written by a fetch do not matter either.
    """
    sides = noise_sides(changes, root, objects)
    if by_others:
        fetched = [each for each in changes if _is_fetched(units.part(each.path), each, marks)]
        changes = changes if len(fetched) < len(changes) else ()
    parts = ((units.part(change.path), change) for change in changes)
    if all(_is_noise(part, change, marks, root, objects, sides) for part, change in parts):
        return ()
    return tuple(changes)


def noise_sides(changes: Sequence[PathChange], root: Path, objects: ObjectStore) -> tuple[Side, Side]:
    """Return functions that read paths before and after changes; unchanged paths are read from the disk."""
    there = disk(root)
    before = {each.path: each.before for each in changes}
    after = {each.path: each.after for each in changes}
    one, other = side(before.get, objects.read), side(after.get, objects.read)
    return (
        lambda path: one(path) if path in before else there(path),
        lambda path: other(path) if path in after else there(path),
    )


def is_index(part: UnitPart) -> bool:
    """Return whether a file is the git index of a repository or a work tree."""
    rest = part.rest.split("/")
    return part.kind == "git" and rest[-1] == "index" and (len(rest) == 1 or rest[0] == "worktrees")


def _is_fetched(part: UnitPart | None, change: PathChange, marks: Mapping[str, UnitMark]) -> bool:
    """Return whether a change in a repository only updates what it knows of a remote repository."""
    if part is None or part.kind != "git" or not part.rest:
        return False
    if part.role in ("bookkeeping", "beside", "store") or part.rest == "shallow":
        return True
    if holds_refs(part.rest) and not is_folder(change):
        refs = marks[part.inner].refs if part.inner in marks else {}
        return all(name.startswith(_FETCHED) for name, (before, after) in refs.items() if before != after)
    return f"{part.rest.removeprefix('logs/')}/".startswith(_FETCHED)


_FETCHED = ("refs/remotes/", "refs/prefetch/")


def _is_noise(
    part: UnitPart | None,
    change: PathChange,
    marks: Mapping[str, UnitMark],
    root: Path,
    objects: ObjectStore,
    sides: tuple[Side, Side],
) -> bool:
    if part is None:
        return not is_folder(change) and says_the_same("", "", change.path, *sides)
    if not part.rest:
        return False
    if part.role in ("bookkeeping", "beside"):
        return True
    if part.kind != "git":
        return says_the_same(part.kind, part.rest, change.path, *sides)
    if holds_refs(part.rest) or (is_folder(change) and part.rest.startswith(("refs", "logs", "info"))):
        refs = marks[part.inner].refs if part.inner in marks else {}
        return all(before == after for before, after in refs.values())
    folder = (root / change.path).parent
    return is_index(part) and lists_the_same(change.before, change.after, objects, folder)
