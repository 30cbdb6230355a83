"""Planning a restore from a whole line: what stands between now and one of its positions."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.plan import RestorePlan, plan_restore
from agent.workspace.checkpoints.steplog import StepLog
from tools.text import clean


def plan_back(
    line: StepLog,
    root: Path,
    position: int,
    objects: ObjectStore,
    *,
    limit: int,
    paths: Collection[str] | None = None,
) -> RestorePlan:
    """What taking the files below `root` back to `position` would do; see `plan_restore`.

    Steps that others made are left out, so that their changes stay theirs: such a path is a conflict.
    Blocking. Raises `StoreError`, for a position that cannot be reached too.
    """
    check_position(line, position)
    ours = [step for step in line.steps() if step.kind != "outside"]
    return plan_restore(root, ours, position, objects, limit=limit, paths=paths)


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
