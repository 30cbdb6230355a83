"""Changes without meaning: files rewritten by reading or packing a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.workspace.checkpoints.entries import PathChange, UnitMark
from agent.workspace.checkpoints.git_index import lists_the_same
from agent.workspace.checkpoints.git_refs import Side, holds_refs
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.state_listings import says_the_same
from agent.workspace.checkpoints.unit_marks import disk, is_folder, side
from agent.workspace.checkpoints.units import UnitPart, Units


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

    If one change matters, all are returned, because everything is restored byte for byte. If others made them
    (`by_others`), files written by a fetch do not count either.
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
    """Return functions that read paths before and after changes; unchanged ones are read from the disk."""
    there = disk(root)
    before = {each.path: each.before for each in changes}
    after = {each.path: each.after for each in changes}
    one, other = side(before.get, objects.read), side(after.get, objects.read)
    return (
        lambda path: one(path) if path in before else there(path),
        lambda path: other(path) if path in after else there(path),
    )


def is_index(part: UnitPart) -> bool:
    """Return whether a file is an index of git, of the repository or of a work tree."""
    rest = part.rest.split("/")
    return part.kind == "git" and rest[-1] == "index" and (len(rest) == 1 or rest[0] == "worktrees")


def _is_fetched(part: UnitPart | None, change: PathChange, marks: Mapping[str, UnitMark]) -> bool:
    """Return whether a change in a repository only updates its knowledge of a remote one."""
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
