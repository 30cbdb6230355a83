"""The plan of a restore: its effect on each path, found before anything is done.

Changes by others are never mistaken for the agent's. A path is a conflict if the disk differs from the
agent's last step. So is a path that a step found in a state other than the previous step had left. The user
decides about conflicts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.git_words import repository_change
from agent.workspace.checkpoints.meanwhile import is_own_folder, refusal
from agent.workspace.checkpoints.objects import MissingObjectError, ObjectStore
from agent.workspace.checkpoints.restore.merge import Merged, merge
from agent.workspace.checkpoints.restore.ref_plan import CHANGED_BETWEEN, CHANGED_SINCE, PlanItem, PlanState
from agent.workspace.checkpoints.restore.unit_plan import UnitPlan, committed
from agent.workspace.checkpoints.root_identity import identity, strangers
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.step_log import StepLog
from agent.workspace.checkpoints.unit_marks import units_of
from agent.workspace.checkpoints.units import NO_UNITS, Units, above, uncovered
from tools.text.safe_text import clean


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The paths that differ from a position, and how to restore them."""

    root: str
    """The workspace folder, with links resolved."""
    position: int
    items: tuple[PlanItem, ...]
    git: tuple[PathChange, ...] = ()
    """One change for each unit with files in the plan, see `git_words.repository_change`."""
    units: Units = NO_UNITS
    """The units in which the steps to be undone changed files."""
    whole: bool = True
    """True if the steps to be undone recorded all their changes."""
    place: str = ""
    """The identity of `root`, see `root_identity`."""
    stood: Mapping[str, PathEntry | None] = field(default_factory=dict)
    """The states of files outside the plan whose times may have changed."""

    @property
    def shown_items(self) -> tuple[PlanItem, ...]:
        """Return the items for the user: all paths restored with a unit are one item, named by its folder."""
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
        """Return the items in this state, in the order of the plan."""
        return tuple(item for item in self.items if item.state == state)

    def sentence(self) -> str:
        """Return a phrase for the user about the number of paths to restore."""
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

    `steps` is the whole step log, oldest first. `paths` are files, or folders with their content; None means
    all. `limit` is the size (bytes) up to which files are stored. Blocking: reads every path in question.
    Raises `StoreError`.
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
        now = _with_twin(planned.capture(path), runs.left)
        target = wanted[path]
        if alike(now, target) or all(alike(each.before, each.after) for each in runs.ours):
            # Unchanged, or the session has nothing to undo here: the current state is by others.
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
    """Return the sentence for the user about a step that is not undone in `root`."""
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
    """Return the plan extended by paths that only steps of others have changed since the position.

    `theirs` are these steps, oldest first. Such a path is a conflict: it stays unchanged unless the user
    chooses otherwise. Blocking. Raises `StoreError`.
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
    # Changes that others made to a unit, or committed, are safe and need not be reported.
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
        now = capture_path(root, path, objects, limit=limit)
        if alike(now, target):
            continue
        reason = _loss(now, target, objects)
        items.append(PlanItem(path, now, target, "lost" if reason else "conflict", reason or CHANGED_SINCE))
    return replace(plan, items=tuple(sorted(items, key=lambda item: item.path)), stood=wanted)


def _with_units(plan: RestorePlan, planned: UnitPlan, objects: ObjectStore) -> RestorePlan:
    """Return the plan with one change that describes each unit."""
    grouped = [item for item in plan.items if plan.units.group(item.path)]
    changes = [PathChange(item.path, item.now, item.target) for item in plan.items]
    folders = dict.fromkeys(plan.units.group(item.path) for item in grouped)
    git = tuple(
        repository_change(folder, changes, objects.read, plan.units, planned.moves(folder))
        for folder in folders
    )
    return replace(plan, git=git)


def _as_one(told: PathChange, items: Sequence[PlanItem]) -> PlanItem:
    """Return one item for a whole unit: it is lost or in conflict if any part of it is."""
    for state in ("lost", "conflict"):
        found = next((each for each in items if each.state == state), None)
        if found is not None:
            return PlanItem(told.path, told.before, told.after, state, found.reason)
    return PlanItem(told.path, told.before, told.after, "change")


def without_agent_changes(item: PlanItem, objects: ObjectStore) -> Merged | None:
    """Return the current content without the agent's changes; None if it cannot be merged.

    Blocking. Changes by others, before or after, are kept. A file missing before or after a step counts as
    empty.
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
    """The changes to one path by the agent and by others."""

    ours: list[PathChange]
    """The agent's changes, newest first; adjacent ones without changes by others in between are joined."""
    left: PathEntry | None
    """The state after the last step, by the agent or by others."""
    others: bool
    """True if the last change was not made by the agent."""
    unnamed: bool = True
    """True if the user may have made each of these changes while a command ran."""


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
    """Return the current state of a path, with the hard link that the last step recorded if unchanged."""
    if now is None or left is None or not left.twin or not alike(now, left):
        return now
    return replace(now, twin=left.twin)


def _is_chosen(path: str, paths: Collection[str]) -> bool:
    return path in paths or any(folder in paths for folder in above(path)) or "" in paths


def _judge_path(
    now: PathEntry | None, target: PathEntry | None, runs: _Runs, objects: ObjectStore, *, refreshed: bool
) -> tuple[PlanState, str]:
    """Return the state of a plan item and its reason.

    `refreshed` means that a file was rewritten without changing what it lists, such as an index by git.
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
    """Return the contents of a file for merging; empty for a missing one. Raises `StoreError`."""
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
    """Return the plan for restoring the files below `root` to `position`; see `plan_restore`.

    Only the agent's changes are undone. A path that others changed too is a conflict. `others` are steps of
    other sessions; if they are given, paths that only others changed since are included. Steps made in other
    folders are skipped with `only_there`, otherwise they are an error.

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
    """Return `path`, which is relative to `base`, as a path in a step; empty for `root`.

    Blocking. Raises `StoreError` for a path that is not below `root`.
    """
    try:
        absolute = base / Path(path).expanduser()
        # The last part may be a link, which itself is meant.
        plain = Path(os.path.normpath(absolute.parent.resolve() / absolute.name))
        found = str(plain.relative_to(root))
    except (ValueError, OSError, RuntimeError):
        raise StoreError(f"{clean(path)} is not in {root}, where the session works.") from None
    return "" if found == "." else found


def check_position(line: StepLog, position: int) -> None:
    """Raise `StoreError` for a position that is not, or no longer, in the step log."""
    first, last = line.floor, line.last
    if position < first:
        raise StoreError(f"Steps up to {first} are no longer kept, so {position} is out of reach.")
    if position > last:
        known = f"the last one is {last}" if last else "there is none yet"
        raise StoreError(f"There is no step {position}; {known}.")
