"""The plan of a restore: its effect on each path, found before anything is done.

Changes by others are never taken for the agent's. A path is a conflict if the disk differs from the agent's
last step. So is one that a step found in a state that the previous step had not left. The user decides about
conflicts.

The part of a plan about units: a repository or a database is restored as a whole, or not at all. The role of
each file decides (`units`). If somebody else changed a file with the state of a unit, the unit is left
unchanged. Files that mere reading writes do not count. Work tree files recorded by a unit are restored with
it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import (
    NO_UNITS,
    PathChange,
    PathEntry,
    PathKind,
    Step,
    UnitPart,
    Units,
    above,
    kinds,
    uncovered,
    within,
)
from agent.workspace.checkpoints.git_index import index_rows, lists_the_same, tree_of_index
from agent.workspace.checkpoints.git_keep import object_ids
from agent.workspace.checkpoints.git_refs import Refs, Side, Values, holds_refs, is_reflog
from agent.workspace.checkpoints.git_words import repository_change
from agent.workspace.checkpoints.meanwhile import is_own_folder, refusal
from agent.workspace.checkpoints.objects import MissingObjectError, ObjectStore
from agent.workspace.checkpoints.precapture import take
from agent.workspace.checkpoints.restore.git_group import (
    CHANGED_BETWEEN,
    CHANGED_SINCE,
    PlanItem,
    PlanState,
    RefPlan,
    ref_histories,
)
from agent.workspace.checkpoints.restore.merge import Merged, merge
from agent.workspace.checkpoints.root_identity import identity, strangers
from agent.workspace.checkpoints.state_listings import State, alike, is_told_by_itself, says_the_same
from agent.workspace.checkpoints.store import StepLog
from agent.workspace.checkpoints.unit_marks import disk, is_index, side, units_of
from tools.text.safe_text import clean

MORE = "holds what came later, and would go with it"
_STASH = "logs/refs/stash"


class UnitPlan:
    """The units of a plan below `root`. `steps` are those to undo, `wanted` the earlier states of paths."""

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
            place: RefPlan(root, place, each, objects, self.take) for place, each in histories.items()
        }
        self._ref_files: dict[str, list[PlanItem]] = {}
        self._indexes: dict[str, tuple[UnitPart, PathEntry | None, PathEntry | None]] = {}
        self._going: dict[str, bool] = {}
        self._now = disk(root)
        self._last = state_listings.last_states(steps)

    def take(self, path: str) -> PathEntry | None:
        """Return the current state of a path, and store its contents. Raises `StoreError`."""
        link = self._units.role(path) == "contents"
        return take(self._root, path, self._objects, limit=self._limit, link=link)

    def moves(self, place: str) -> Values | None:
        """Return the changes of the refs of a repository by restoring; None if no step recorded them."""
        return self._refs[place].moves if place in self._refs else None

    def lists_the_same(self, path: str, now: PathEntry | None, left: PathEntry | None) -> bool:
        """Return whether a file that was rewritten, such as an index, still lists the same."""
        return self._same(path, now, left, self._now, self._last)

    def found_the_same(self, path: str, left: State, found: State) -> bool:
        """Return whether the state that a step found at a path means the same as the one earlier steps had
        left.
        """
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
        """Return a function that reads paths as steps left them; unchanged ones are read from disk."""
        told = side(known.get, self._objects.read)
        return lambda path: told(path) if path in known else self._now(path)

    def judge_path(self, item: PlanItem, left: PathEntry | None) -> list[PlanItem]:
        """Return the items for a path of a unit; empty if it is silently left unchanged.

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
            # Packing takes empty folders away; git makes them again.
            return []
        return [item]

    def complete_items(self, items: Sequence[PlanItem]) -> list[PlanItem]:
        """Return all items, including those of refs and those needed to remove a whole unit."""
        found = {item.path: item for item in items}
        # Where only some paths were chosen, units of which none was stay out of it.
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
                # It was made of a history that was longer or shorter.
                info = within(place, "objects/info")
                again += [
                    f"{info}/commit-graph",
                    *_walk_unit(self._root, f"{info}/commit-graphs", self._units),
                ]
            for path in again:
                if path not in found and (now := self.take(path)) is not None:
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
        """Return whether a folder to remove in a unit now contains files by others."""
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
        """Return the items of a reflog. If somebody added to it, only the lines of the steps are removed."""
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
            # A file is in its place if a step moved the repository elsewhere.
            entry = self._wanted.get(root)
            made = root in self._wanted and (entry is None or entry.kind is not PathKind.FOLDER)
            self._going[root] = made and bool(self._units.places.get(root)) and (self._root / root).is_dir()
        return self._going[root]

    def _rest_of(self, root: str, found: Mapping[str, PlanItem]) -> Iterator[PlanItem]:
        """Yield items for the remaining files of a unit to remove.

        They are removed if reading or packing created them; otherwise the unit stays unchanged.
        """
        for path in _walk_unit(self._root, root, self._units):
            if path in found:
                yield replace(found[path], target=None)
                continue
            part = self._units.part(path)
            now = self.take(path)
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
                within(root, "objects"), self.take(within(root, "objects")), None, "conflict", reason
            )

    def _later(self, root: str) -> str:
        """Return why a repository created by the steps must not be removed; empty if it holds nothing by
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
        """Return the folder of the unit for each work tree file that its recorded states list differently."""
        found: dict[str, str] = {}
        for path, (part, target, left) in self._indexes.items():
            found |= dict.fromkeys(differing(self._root, path, part, target, left, self._objects), part.root)
            # So does what leads from the work tree to it.
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
    """Return files that a step changed together with a version control store other than git, with its
    folder.
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


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The paths that differ from a position, and how to restore them."""

    root: str
    """The workspace, resolved."""
    position: int
    items: tuple[PlanItem, ...]
    git: tuple[PathChange, ...] = ()
    """One change for each unit with files in the plan, see `git_words.repository_change`."""
    units: Units = NO_UNITS
    """The units in which the undone steps changed files."""
    whole: bool = True
    """Whether the undone steps guarantee all their changes."""
    place: str = ""
    """The identity of `root`, see `root_identity`."""
    stood: Mapping[str, PathEntry | None] = field(default_factory=dict)
    """States of files outside the plan whose times may have changed."""

    @property
    def shown_items(self) -> tuple[PlanItem, ...]:
        """Return the items for the user: all paths restored with a unit are one item, named after its
        folder.
        """
        told = {change.path: change for change in self.git}
        groups: dict[str, list[PlanItem]] = {}
        items: list[PlanItem] = []
        for item in self.items:
            folder = self.units.group(item.path)
            if folder in told:
                groups.setdefault(folder, []).append(item)
            else:
                items.append(item)
        items += [_as_one(told[folder], inside) for folder, inside in groups.items()]
        return tuple(sorted(items, key=lambda item: item.path))

    def having(self, state: PlanState) -> tuple[PlanItem, ...]:
        """Return the items in this state, sorted by path."""
        return tuple(item for item in self.items if item.state == state)

    def sentence(self) -> str:
        """Return a sentence on the number of paths to restore, for the user."""
        shown = self.shown_items
        states: tuple[PlanState, ...] = ("change", "conflict", "lost")
        counts = [(sum(item.state == state for item in shown), state) for state in states]
        words = {
            "change": "to change back",
            "conflict": "in conflict",
            "lost": "that cannot be brought back",
        }
        parts = [
            f"{count:,} {'path' if count == 1 else 'paths'} {words[state]}"
            for count, state in counts
            if count
        ]
        return ", ".join(parts) if parts else "nothing to change"


def plan_restore(
    root: Path,
    steps: Sequence[Step],
    position: int,
    objects: ObjectStore,
    *,
    limit: int,
    paths: Collection[str] | None = None,
) -> RestorePlan:
    """Return the changes below `root` that lead back to `position`.

    `steps` is the whole step log, oldest first. `paths` are files, or folders with their content. `limit` is
    the size (bytes) up to which files are stored. Blocking: reads every path in question. Raises
    `StoreError`.
    """
    if strange := strangers((step for step in steps if step.number > position), root):
        raise StoreError(other_root(strange[-1], root))
    wanted = state_listings.targets(steps, position)
    since = state_listings.between(steps, position, steps[-1].number if steps else 0)
    units = units_of(since)
    planned = UnitPlan(root, units, since, wanted, objects, limit)
    ours = _runs(since, planned)
    items: list[PlanItem] = []
    whole = {each for path in paths or () if (each := units.group(path))}
    for path in sorted(wanted):
        if uncovered(units, path) or is_own_folder(path, wanted[path], objects):
            continue
        # A unit is restored as a whole, whichever of its files was named.
        if paths is not None and not _is_chosen(path, paths) and units.group(path) not in whole:
            continue
        if reason := refusal(path, wanted[path], objects):
            items.append(PlanItem(path, None, wanted[path], "lost", reason))
            continue
        runs = ours[path]
        now = _with_twin(planned.take(path), runs.left)
        target = wanted[path]
        if alike(now, target) or all(alike(each.before, each.after) for each in runs.ours):
            # Unchanged, or nothing of ours to undo: the current state is somebody else's.
            continue
        refreshed = planned.lists_the_same(path, now, runs.left)
        state, reason = _judge_path(now, target, runs, objects, refreshed=refreshed)
        item = PlanItem(path, now, target, state, reason, tuple(runs.ours), runs.unnamed)
        items += planned.judge_path(item, runs.left) if units.part(path) else [item]
    items = planned.complete_items(items)
    complete = all(step.coverage.complete for step in since)
    plan = RestorePlan(str(root), position, tuple(items), units=units, whole=complete, place=identity(root))
    return _with_units(plan, planned, objects)


def other_root(step: Step, root: Path) -> str:
    """Return why a step is not undone in `root`, for the user."""
    there = clean(step.root)
    was = f"what {there} was then" if step.root == str(root) else there
    return (
        f"Step {step.number} was made in another folder ({was}) than {clean(str(root))}, so it is not taken "
        "back here; nothing was changed."
    )


def with_others(
    plan: RestorePlan,
    theirs: Sequence[Step],
    objects: ObjectStore,
    *,
    limit: int,
    paths: Collection[str] | None = None,
) -> RestorePlan:
    """Return the plan extended by paths that only others' steps changed since the position.

    `theirs` are these steps, oldest first. Such a path is a conflict: it stays unchanged unless chosen
    otherwise. Blocking. Raises `StoreError`.
    """
    root = Path(plan.root)
    known = {item.path for item in plan.items}
    items = list(plan.items)
    wanted: dict[str, PathEntry | None] = {}
    units = plan.units | units_of(theirs)
    safe = committed(root, theirs, units, objects)
    for step in theirs:
        for change in step.changes:
            wanted.setdefault(change.path, change.before)
    # What others did to a unit, and committed with it, is theirs and safe, and no news here.
    known |= {path for path in wanted if path in safe or units.part(path)}
    known |= {folder for path in known for folder in above(path) if wanted.get(folder, path) is None}
    for path, target in wanted.items():
        if path in known or (paths is not None and not _is_chosen(path, paths)):
            continue
        if is_own_folder(path, target, objects):
            continue
        if reason := refusal(path, target, objects):
            items.append(PlanItem(path, None, target, "lost", reason))
            continue
        now = take(root, path, objects, limit=limit)
        if alike(now, target):
            continue
        reason = _loss(now, target, objects)
        items.append(PlanItem(path, now, target, "lost" if reason else "conflict", reason or CHANGED_SINCE))
    return replace(plan, items=tuple(sorted(items, key=lambda item: item.path)), stood=wanted)


def _with_units(plan: RestorePlan, planned: UnitPlan, objects: ObjectStore) -> RestorePlan:
    """Return the plan with notes on units."""
    grouped = [item for item in plan.items if plan.units.group(item.path)]
    changes = [PathChange(item.path, item.now, item.target) for item in plan.items]
    folders = dict.fromkeys(plan.units.group(item.path) for item in grouped)
    git = tuple(
        repository_change(folder, changes, objects.read, plan.units, planned.moves(folder))
        for folder in folders
    )
    return replace(plan, git=git)


def _as_one(told: PathChange, items: Sequence[PlanItem]) -> PlanItem:
    """Return one item for a whole unit: it stays unchanged if any part of it must."""
    for state in ("lost", "conflict"):
        found = next((each for each in items if each.state == state), None)
        if found is not None:
            return PlanItem(told.path, told.before, told.after, state, found.reason)
    return PlanItem(told.path, told.before, told.after, "change")


def merge_changes(item: PlanItem, objects: ObjectStore) -> Merged | None:
    """Return the current content without the agent's changes; None if it cannot be merged.

    Blocking. Changes by others, before or after, are kept. A missing file counts as empty.
    """
    if item.now is None or item.target is None:
        return None
    try:
        result = Merged(_text(item.now, objects), 0)
        for change in item.taking_back:
            base, earlier = _text(change.after, objects), _text(change.before, objects)
            step = merge(base, result.data, earlier)
            if step is None:
                return None
            result = Merged(step.data, result.overlaps + step.overlaps)
    except StoreError:
        return None
    return result


@dataclass(slots=True)
class _Runs:
    """The changes of one path by the agent and by others."""

    ours: list[PathChange]
    """Our changes, newest first; adjacent ones without others' changes in between are joined."""
    left: PathEntry | None
    """The state after the last step, by the agent or by others."""
    others: bool
    """Whether somebody else changed it last."""
    unnamed: bool = True
    """Whether a user may have made each of our changes while a command ran."""


def _runs(steps: Sequence[Step], planned: UnitPlan) -> dict[str, _Runs]:
    found: dict[str, _Runs] = {}
    left: state_listings.State = {}
    for step in steps:
        met = {change.path: change.before for change in step.changes}
        for change in step.changes:
            path = change.path
            runs = found.setdefault(path, _Runs([], None, others=False))
            broken = runs.others or not runs.ours
            if not broken and not alike(runs.left, change.before):
                broken = not planned.found_the_same(path, left, met)
            runs.left, runs.others = change.after, step.kind == "outside"
            if step.kind == "outside":
                continue
            runs.unnamed = runs.unnamed and change.path in step.perhaps
            if broken:
                runs.ours.insert(0, change)
            else:
                runs.ours[0] = PathChange(change.path, runs.ours[0].before, change.after)
        left |= {change.path: change.after for change in step.changes}
    return found


def _with_twin(now: PathEntry | None, left: PathEntry | None) -> PathEntry | None:
    """Return the current state of a path, with the second name that the last step recorded if it is
    unchanged.
    """
    if now is None or left is None or not left.twin or not alike(now, left):
        return now
    return replace(now, twin=left.twin)


def _is_chosen(path: str, paths: Collection[str]) -> bool:
    return path in paths or any(folder in paths for folder in above(path)) or "" in paths


def _judge_path(
    now: PathEntry | None, target: PathEntry | None, runs: _Runs, objects: ObjectStore, *, refreshed: bool
) -> tuple[PlanState, str]:
    """Return the state of a plan item and its reason.

    `refreshed` tells that git rewrote its index without changing the list in it.
    """
    if reason := _loss(now, target, objects):
        return "lost", reason
    if runs.others or not (alike(now, runs.left) or refreshed):
        return "conflict", CHANGED_SINCE
    if len(runs.ours) > 1 or not alike(target, runs.ours[0].before):
        return "conflict", CHANGED_BETWEEN
    return "change", ""


def _loss(now: PathEntry | None, target: PathEntry | None, objects: ObjectStore) -> str:
    """Return why a path cannot be restored; empty if it can."""
    if now is not None and not now.is_restorable:
        return f"what stands there now cannot be kept: it {now.reason or 'is special'}"
    if target is not None and not target.is_restorable:
        return f"its contents were not kept: {target.reason or 'it was not a plain file'}"
    if target is not None and target.digest is not None and not objects.has(target.digest):
        return "its contents are no longer in the checkpoints"
    return ""


def _text(entry: PathEntry | None, objects: ObjectStore) -> bytes:
    """Return the contents of a file for merging. Raises `StoreError` if it has none or they are missing."""
    if entry is None:
        return b""
    if entry.digest is None or entry.size > _MERGED_BYTES:
        raise MissingObjectError("There is no text to be merged.")
    return objects.read(entry.digest)


_MERGED_BYTES = 4_000_000


def plan_back(
    line: StepLog,
    root: Path,
    position: int,
    objects: ObjectStore,
    *,
    limit: int,
    paths: Collection[str] | None = None,
    others: Sequence[Step] | None = None,
    only_there: bool = False,
) -> RestorePlan:
    """Return the effect of restoring the files below `root` to `position`; see `plan_restore`.

    Only the agent's changes are undone. A path that others changed too is a conflict. `others` are steps of
    other sessions: then paths that only others changed since are included. Steps made in other folders are
    skipped with `only_there`, else they are an error.

    Blocking. Raises `StoreError`, for an unreachable position too.
    """
    check_position(line, position)
    steps = line.steps()
    elsewhere = {step.number for step in strangers(steps, root)} if only_there else set[int]()
    ours = [step for step in steps if step.kind != "outside" and step.number not in elsewhere]
    plan = plan_restore(root, ours, position, objects, limit=limit, paths=paths)
    if others is None:
        return plan
    since = next((step.created for step in reversed(steps) if step.number <= position), 0.0)
    since = since or min((step.created for step in steps), default=0.0)
    own = (
        step
        for step in steps
        if step.kind == "outside" and step.number > position and step.number not in elsewhere
    )
    foreign = (step for step in others if step.session != line.session and step.created >= since)
    theirs = sorted((*own, *foreign), key=lambda step: step.created)
    return with_others(plan, theirs, objects, limit=limit, paths=paths)


def inside(root: Path, path: str, base: Path) -> str:
    """Return `path`, which is relative to `base`, as a path of a step; empty for `root`.

    Blocking. Raises `StoreError` for one that is not below `root`.
    """
    try:
        absolute = base / Path(path).expanduser()
        # The last part may be a link that is meant itself.
        plain = Path(os.path.normpath(absolute.parent.resolve() / absolute.name))
        found = str(plain.relative_to(root))
    except (ValueError, OSError, RuntimeError):
        raise StoreError(f"{clean(path)} is not in {root}, where the session works.") from None
    return "" if found == "." else found


def check_position(line: StepLog, position: int) -> None:
    """Raise `StoreError` for a position that is not in the step log, or no longer."""
    first, last = line.floor, line.last
    if position < first:
        raise StoreError(f"Steps up to {first} are no longer kept, so {position} is out of reach.")
    if position > last:
        known = f"the last one is {last}" if last else "there is none yet"
        raise StoreError(f"There is no step {position}; {known}.")
