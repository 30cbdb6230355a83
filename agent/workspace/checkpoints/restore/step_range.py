"""Planning a restore from a whole line: what stands between now and one of its positions."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import Step
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.plan import RestorePlan, plan_restore, with_others
from agent.workspace.checkpoints.root_identity import strangers
from agent.workspace.checkpoints.step_log import StepLog
from tools.text.safe_text import clean


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
    """What taking the files below `root` back to `position` would do; see `plan_restore`.

    Steps that others made are left out, so that their changes stay theirs: such a path is a conflict.
    With `others`, steps of other sessions there, what only others changed since is in the plan too. With
    `only_there` steps that were made in other folders are passed over, else they are an error.
    Blocking. Raises `StoreError`, for a position that cannot be reached too.
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
    """A path, meant from the folder `base`, as the steps of a workspace name it; empty for `root` itself.

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
    """Raises `StoreError` for a position that is not on the line, or no longer."""
    first, last = line.floor, line.last
    if position < first:
        raise StoreError(f"Steps up to {first} are no longer kept, so {position} is out of reach.")
    if position > last:
        known = f"the last one is {last}" if last else "there is none yet"
        raise StoreError(f"There is no step {position}; {known}.")
