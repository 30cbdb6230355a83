"""The part of a plan for units: a unit (a repository or a database) is restored as a whole, or not at all.

The role of each file decides (`units`). If others changed a file with the state of a unit, the unit is left
unchanged. Files that mere reading writes do not count. Work tree files recorded by a unit are restored with
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import PathEntry, PathKind, Step
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.git_index import index_rows, lists_the_same, tree_of_index
from agent.workspace.checkpoints.git_keep import object_ids
from agent.workspace.checkpoints.git_refs import Refs, Side, Values, holds_refs, is_reflog
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.ref_plan import PlanItem, RefPlan, ref_histories
from agent.workspace.checkpoints.state_listings import State, alike, is_told_by_itself, says_the_same
from agent.workspace.checkpoints.unit_marks import disk, is_index, side
from agent.workspace.checkpoints.units import UnitPart, Units, kinds, uncovered, within

MORE = "holds what came later, and would go with it"
_STASH = "logs/refs/stash"


class UnitPlan:
    """The part of a plan for units below `root`. `steps` are to be undone, `wanted` are earlier states."""

    def __init__(
        self,
        root: Path,
        units: Units,
        steps: Sequence[Step],
        wanted: State,
        objects: ObjectStore,
        limit: int,
    ) -> None:
        self._root = root
        self._units = units
        self._steps = steps
        self._wanted = wanted
        self._objects = objects
        self._limit = limit
        histories = ref_histories(steps, units, objects) if units.places or _of_older(steps, units) else {}
        self._refs = {
            place: RefPlan(root, place, each, objects, self.capture) for place, each in histories.items()
        }
        self._ref_files: dict[str, list[PlanItem]] = {}
        self._indexes: dict[str, tuple[UnitPart, PathEntry | None, PathEntry | None]] = {}
        self._going: dict[str, bool] = {}
        self._now = disk(root)
        self._last = state_listings.last_states(steps)

    def capture(self, path: str) -> PathEntry | None:
        """Return the current state of a path, and store its contents. Raises `StoreError`."""
        link = self._units.role(path) == "contents"
        return capture_path(self._root, path, self._objects, limit=self._limit, link=link)

    def moves(self, place: str) -> Values | None:
        """Return the refs of a repository that restoring changes; None if no step recorded any."""
        return self._refs[place].moves if place in self._refs else None

    def lists_the_same(self, path: str, now: PathEntry | None, left: PathEntry | None) -> bool:
        """Return whether a file that was rewritten, such as an index, still lists the same."""
        return self._same(path, now, left, self._now, self._last)

    def found_the_same(self, path: str, left: State, found: State) -> bool:
        """Return whether the state that a step found at a path means the same as what steps had left."""
        earlier, told = self._read(left), side(found.get, self._objects.read)

        def now(each: str) -> bytes | None:
            return told(each) if each in found else earlier(each)

        return self._same(path, found.get(path), left.get(path), now, left)

    def _same(
        self, path: str, now: PathEntry | None, left: PathEntry | None, there: Side, known: State
    ) -> bool:
        part = self._units.part(path)
        if part is None or not is_index(part):
            if alike(now, left):
                return True
            if part is None and not is_told_by_itself(path, known, there):
                return False
            place = (part.kind, part.rest) if part is not None else ("", "")
            return says_the_same(*place, path, there, self._read(known))
        return lists_the_same(now, left, self._objects, (self._root / path).parent)

    def _read(self, known: State) -> Side:
        """Return a function that returns contents as steps left them; unchanged ones are read from disk."""
        told = side(known.get, self._objects.read)
        return lambda path: told(path) if path in known else self._now(path)

    def judge_path(self, item: PlanItem, left: PathEntry | None) -> list[PlanItem]:
        """Return the items for a path in a unit; empty if it is silently left unchanged, or handled later.

        `item` is the path judged as an ordinary file, `left` its state after the last step.
        """
        part = self._units.part(item.path)
        if part is None or not part.rest:
            return [item]
        if part.kind == "git" and holds_refs(part.rest) and not _is_folder(item):
            self._ref_files.setdefault(part.inner, []).append(item)
            return []
        whole, role = self._is_whole(part.root) or self._is_whole(part.inner), part.role
        if role in ("store", "contents") and not whole and (item.target is None or item.now is not None):
            return []
        if role == "beside" and not whole:
            return []
        if role in ("beside", "bookkeeping") and not alike(item.now, left) and not whole:
            return []
        log = part.kind == "git" and is_reflog(part.rest) and part.rest != _STASH
        beside = role in ("beside", "bookkeeping", "store", "contents") or (log and whole and not item.now)
        if beside and item.state == "conflict":
            return [replace(item, state="change", reason="")]
        if log:
            return self._log(item, left)
        if is_index(part):
            self._indexes[item.path] = part, item.target, left
        if _is_folder(item) and item.state == "conflict" and item.now is None:
            # Packing removes empty folders; git creates them again.
            return []
        return [item]

    def complete_items(self, items: Sequence[PlanItem]) -> list[PlanItem]:
        """Return all items, including those for refs and those needed to remove a whole unit."""
        found = {item.path: item for item in items}
        # If only some paths were chosen, units without a chosen path are left out.
        ref_items = [each for files in self._ref_files.values() for each in files]
        parts = [self._units.part(each.path) for each in (*items, *ref_items)]
        touched = {each for part in parts if part is not None for each in (part.root, part.inner)}
        for place, files in self._ref_files.items():
            if place not in self._refs:
                found |= {item.path: item for item in files}
        for place, plan in self._refs.items():
            if place not in touched:
                continue
            found |= {item.path: item for item in plan.items(self._ref_files.get(place, ()))}
        for place in [place for place in self._units.places if place in touched and self._goes(place)]:
            found |= {item.path: item for item in self._rest_of(place, found)}
        for place in touched & self._units.places.keys():
            kind = kinds().get(self._units.places[place])
            again = [within(place, name) for name in (kind.again if kind else ())]
            if kind and kind.name == "git" and within(place, "shallow") in found:
                # The commit graph was built from a longer or shorter history.
                info = within(place, "objects/info")
                again += [
                    f"{info}/commit-graph",
                    *_walk_unit(self._root, f"{info}/commit-graphs", self._units),
                ]
            for path in again:
                if path not in found and (now := self.capture(path)) is not None:
                    found[path] = PlanItem(path, now, None, "change")
        for path in sorted(found, reverse=True):
            if self._holds_more(path, found):
                del found[path]
        belongs = self._belonging()
        return [
            replace(item, unit=belongs[item.path]) if item.path in belongs else item
            for _, item in sorted(found.items())
        ]

    def _holds_more(self, path: str, found: Mapping[str, PlanItem]) -> bool:
        """Return whether a folder to be removed in a unit now contains files by others."""
        item, part = found[path], self._units.part(path)
        if item.target is not None or not _is_folder(item) or part is None or not part.rest:
            return False
        try:
            names = os.listdir(self._root / path)  # noqa: PTH208
        except OSError:
            return False
        paths = (f"{path}/{name}" for name in names)
        below = [found.get(each) for each in paths if not uncovered(self._units, each)]
        return any(each is None or each.target is not None for each in below)

    def _log(self, item: PlanItem, left: PathEntry | None) -> list[PlanItem]:
        """Return the items for a reflog. If others added to it, only the lines of the steps are removed."""
        if item.state == "change" or item.now is None or left is None:
            return [item] if item.state != "conflict" else []
        try:
            now, ours = self._objects.read(item.now.digest or ""), self._objects.read(left.digest or "")
            then = self._objects.read(item.target.digest or "") if item.target is not None else b""
        except StoreError:
            return []
        added = ours[len(then) :]
        if not added or not ours.startswith(then) or now.count(added) != 1:
            return []
        data = now.replace(added, b"")
        entry = PathEntry(PathKind.FILE, item.now.mode, len(data), 0, self._objects.add(data))
        return [replace(item, target=entry, state="change", reason="")]

    def _is_whole(self, root: str) -> bool:
        """Return whether the unit must be restored or removed as a whole."""
        return self._goes(root) or (root in self._wanted and not os.path.lexists(self._root / root))

    def _goes(self, root: str) -> bool:
        """Return whether the steps created the unit, so that all of it must be removed."""
        if root not in self._going:
            # There is a file at its path if a step moved the repository elsewhere.
            entry = self._wanted.get(root)
            made = root in self._wanted and (entry is None or entry.kind is not PathKind.FOLDER)
            self._going[root] = made and bool(self._units.places.get(root)) and (self._root / root).is_dir()
        return self._going[root]

    def _rest_of(self, root: str, found: Mapping[str, PlanItem]) -> Iterator[PlanItem]:
        """Yield items for the remaining files of a unit to be removed.

        They are removed if reading or packing created them; otherwise they are conflicts, and the unit stays
        unchanged.
        """
        for path in _walk_unit(self._root, root, self._units):
            if path in found:
                yield replace(found[path], target=None)
                continue
            part = self._units.part(path)
            now = self.capture(path)
            known = path in self._wanted or now is None
            plain = part is None or part.role in ("state", "alone", "store", "contents")
            logs = part is not None and part.kind == "git" and is_reflog(part.rest)
            refs = part is not None and part.kind == "git" and holds_refs(part.rest)
            folder = now is not None and now.kind is PathKind.FOLDER
            if not known and plain and not (logs or refs or folder):
                yield PlanItem(path, now, None, "conflict", MORE)
            elif now is not None:
                yield PlanItem(path, now, None, "change")
        if self._units.places[root] == "git" and (reason := self._later(root)):
            yield PlanItem(
                within(root, "objects"), self.capture(within(root, "objects")), None, "conflict", reason
            )

    def _later(self, root: str) -> str:
        """Return why a repository created by the steps must not be removed; empty if it contains nothing by
        others.
        """
        refs = Refs(disk(self._root))
        known = self._refs[root].moves if root in self._refs else {}
        names = [
            path for path in _walk_unit(self._root, root, self._units) if holds_refs(path[len(root) + 1 :])
        ]
        names = [path[len(root) + 1 :] for path in names] + [*refs.packed(root), *(refs.tables(root) or {})]
        if any(refs.value(root, name) and name not in known for name in names if name.startswith("refs/")):
            return MORE
        marks = [step.units[root].objects for step in self._steps if root in step.units]
        ids = next((mark for mark in reversed(marks) if mark), "")
        return MORE if ids and len(marks) == 1 and object_ids(self._root / root / "objects") != ids else ""

    def _belonging(self) -> dict[str, str]:
        """Return the unit's folder for each work tree file that its recorded states list differently."""
        found: dict[str, str] = {}
        for path, (part, target, left) in self._indexes.items():
            found |= dict.fromkeys(differing(self._root, path, part, target, left, self._objects), part.root)
            # The same applies to the file that links the work tree to it.
            tree = tree_of_index(self._root, part)
            if tree is not None and (pointer := within(tree, ".git")) not in self._units.places:
                found[pointer] = part.root
        for step in self._steps:
            found |= _recorded_with(step, self._units)
        return found


def committed(root: Path, steps: Sequence[Step], units: Units, objects: ObjectStore) -> frozenset[str]:
    """Return work tree files that steps changed together with the unit that records them. Blocking."""
    found: set[str] = set()
    for step in steps:
        for change in step.changes:
            if (part := units.part(change.path)) and is_index(part):
                found |= differing(root, change.path, part, change.before, change.after, objects)
        found |= _recorded_with(step, units).keys()
    return frozenset(found)


def _recorded_with(step: Step, units: Units) -> dict[str, str]:
    """Return files that a step changed together with a version control store other than git, with the store's
    path.
    """
    found: dict[str, str] = {}
    for place, mark in step.units.items():
        if mark.kind not in ("git", "") and kinds()[mark.kind].versions:
            above = place.rpartition("/")[0]
            names = (each.path for each in step.changes if not units.part(each.path))
            found |= {name: place for name in names if not above or name.startswith(f"{above}/")}
    return found


def differing(
    root: Path,
    path: str,
    part: UnitPart,
    one: PathEntry | None,
    other: PathEntry | None,
    objects: ObjectStore,
) -> set[str]:
    """Return the work tree files that two states of the index at `path` list differently. Blocking."""
    tree = tree_of_index(root, part)
    if tree is None:
        return set()
    names = _index_names(one, (root / path).parent, objects) ^ _index_names(
        other, (root / path).parent, objects
    )
    return {within(tree, os.fsdecode(name)) for name, _ in names}


def _index_names(entry: PathEntry | None, folder: Path, objects: ObjectStore) -> set[tuple[bytes, bytes]]:
    if entry is None or entry.digest is None:
        return set()
    try:
        return set(index_rows(objects.read(entry.digest), folder))
    except (StoreError, OSError, ValueError, IndexError):
        return set()


def _of_older(steps: Sequence[Step], units: Units) -> bool:
    return any(units.part(change.path) for step in steps for change in step.changes)


def _is_folder(item: PlanItem) -> bool:
    return any(each is not None and each.kind is PathKind.FOLDER for each in (item.now, item.target))


def _walk_unit(root: Path, folder: str, units: Units) -> Iterator[str]:
    """Yield all paths below the folder of a unit that a step may record."""
    for place, folders, files in os.walk(root / folder):
        prefix = os.path.relpath(place, root)
        names = [within(prefix, name) for name in (*folders, *files)]
        folders[:] = [
            name for name in folders if units.role(within(prefix, name)) not in ("passing", "objects")
        ]
        yield from (name for name in names if units.role(name) not in ("passing", "objects"))
