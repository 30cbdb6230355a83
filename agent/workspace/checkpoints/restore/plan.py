"""What a restore would do to each path, found out before anything is done.

Nothing that somebody else wrote is taken for ours: where the disk is not as our
last step left it, or a step found something the one before had not left, the
path is a conflict that a person decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from agent.errors import StoreError
from agent.workspace.checkpoints import states
from agent.workspace.checkpoints.entries import Change, Entry, Step
from agent.workspace.checkpoints.objects import MissingObjectError, ObjectStore
from agent.workspace.checkpoints.restore.merge import Merged, merge
from agent.workspace.checkpoints.states import alike
from agent.workspace.checkpoints.taking import take, uncovered

PlanState = Literal["change", "conflict", "lost"]
"""`lost`: cannot be made as it was; it is left as it is now."""

Way = Literal["mine", "checkpoint", "merge"]
"""What becomes of a path: what stands there now, what the checkpoint has, or both put together."""


@dataclass(frozen=True, slots=True)
class Part:
    """Only some hunks of a file are taken; they count between exactly these two contents."""

    now: str
    """SHA-256 of what stood there when they were chosen, in hex."""
    then: str
    """SHA-256 of what the file would become as a whole."""
    hunks: frozenset[int]
    """Numbers from 1."""
    merging: bool = False
    """Whether the whole is both sides put together."""


Choice = Way | Part
"""What was chosen for a path. A conflict without a choice stays as it is; anything else goes back."""

CHANGED_SINCE = "changed since by somebody else"
CHANGED_BETWEEN = "changed by somebody else between two steps"


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One path that is not as it was."""

    path: str
    now: Entry | None
    """How it stands; its contents are in the store by now, so that the restore can be undone."""
    target: Entry | None
    """How it stood at the position."""
    state: PlanState
    reason: str = ""
    """Why it is no plain change; empty for one."""
    taking_back: tuple[Change, ...] = ()
    """Our changes since the position, newest first; those of others lie between them."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What differs from a position. Paths that are as they were are not in it."""

    root: str
    """The workspace, resolved."""
    position: int
    items: tuple[PlanItem, ...]

    def having(self, state: PlanState) -> tuple[PlanItem, ...]:
        """The items of one state, in order of their paths."""
        return tuple(item for item in self.items if item.state == state)

    def sentence(self) -> str:
        """How much there is to do, for a person."""
        counts = [(len(self.having(state)), state) for state in ("change", "conflict", "lost")]
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
    """What would have to change below `root` to be back at `position`.

    `steps` is the whole line, oldest first; `paths` are files, or folders that stand for all below
    them. `limit` is the size (bytes) up to which files are kept. Blocking: reads every path in
    question. Raises `StoreError`.
    """
    wanted = states.targets(steps, position)
    ours = _runs(states.between(steps, position, steps[-1].number if steps else 0))
    items: list[PlanItem] = []
    for path in sorted(wanted):
        if uncovered(path) or (paths is not None and not _chosen(path, paths)):
            continue
        runs = ours[path]
        now = _with_twin(take(root, path, objects, limit=limit), runs.left)
        target = wanted[path]
        if alike(now, target) or all(alike(each.before, each.after) for each in runs.ours):
            # As it was, or nothing of ours is to be taken back: what stands there is somebody else's.
            continue
        state, reason = _judged(now, target, runs, objects)
        items.append(PlanItem(path, now, target, state, reason, tuple(runs.ours)))
    return RestorePlan(str(root), position, tuple(items))


def merged(item: PlanItem, objects: ObjectStore) -> Merged | None:
    """Our changes taken back out of what stands there now; None where that makes no sense.

    Blocking. What others changed, before or after, stays; a file that was not there counts as empty.
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
    """What happened to one path."""

    ours: list[Change]
    """Our changes, newest first; those between which nobody else changed it are one."""
    left: Entry | None
    """How the last step left it, whoever made it."""
    others: bool
    """Whether somebody else changed it at last."""


def _runs(steps: Sequence[Step]) -> dict[str, _Runs]:
    found: dict[str, _Runs] = {}
    for step in steps:
        for change in step.changes:
            runs = found.setdefault(change.path, _Runs([], None, others=False))
            broken = runs.others or not runs.ours or not alike(runs.left, change.before)
            runs.left, runs.others = change.after, step.kind == "outside"
            if step.kind == "outside":
                continue
            if broken:
                runs.ours.insert(0, change)
            else:
                runs.ours[0] = Change(change.path, runs.ours[0].before, change.after)
    return found


def _with_twin(now: Entry | None, left: Entry | None) -> Entry | None:
    """What stands at a path, with the other name it was given: that goes into the restore's own step."""
    if now is None or left is None or not left.twin or not alike(now, left):
        return now
    return replace(now, twin=left.twin)


def _chosen(path: str, paths: Collection[str]) -> bool:
    return path in paths or any(above in paths for above in _above(path)) or "" in paths


def _above(path: str) -> Iterator[str]:
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        yield path


def _judged(
    now: Entry | None, target: Entry | None, runs: _Runs, objects: ObjectStore
) -> tuple[PlanState, str]:
    if now is not None and not now.kept:
        return "lost", f"what stands there now cannot be kept: it {now.reason or 'is special'}"
    if target is not None and not target.kept:
        return "lost", f"its contents were not kept: {target.reason or 'it was no plain file'}"
    if target is not None and target.digest is not None and not objects.has(target.digest):
        return "lost", "its contents are no longer in the checkpoints"
    if runs.others or not alike(now, runs.left):
        return "conflict", CHANGED_SINCE
    if len(runs.ours) > 1 or not alike(target, runs.ours[0].before):
        return "conflict", CHANGED_BETWEEN
    return "change", ""


def _text(entry: Entry | None, objects: ObjectStore) -> bytes:
    """The contents to be merged. Raises `StoreError` when there are none or they are not there."""
    if entry is None:
        return b""
    if entry.digest is None or entry.size > _MERGED_BYTES:
        raise MissingObjectError("There is no text to be merged.")
    return objects.read(entry.digest)


_MERGED_BYTES = 4_000_000
