"""Decisions about files with several hard links: which are written in place, and notes about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import PlanItem

ELSEWHERE = "{path} was changed through a hard link, and the change still stands under its other names"


def with_inode(item: PlanItem, wanted: PathEntry | None) -> PathEntry | None:
    """Return the target of a path, with an inode only if the steps wrote into the existing file."""
    if wanted is None or wanted.kind is not PathKind.FILE:
        return wanted
    return replace(wanted, inode=item.target.inode if item.target and _wrote_into(item) else "")


def changed_elsewhere(root: Path, plan: RestorePlan, moves: Sequence[Move]) -> Iterator[str]:
    """Yield a clause about each file whose change remains visible under hard links that the restore does not
    reach.
    """
    moving = {move.path: move for move in moves}
    found = {
        each.now.inode: each.now
        for each in plan.items
        if each.path in moving and each.now is not None and each.now.inode
    }
    for item in plan.items:
        move, target = moving.get(item.path), item.target
        if move is None or target is None or not target.inode or move.wanted is None:
            continue
        if move.wanted.inode:
            try:
                there = str((root / item.path).lstat().st_ino) == target.inode
            except (OSError, ValueError):
                there = False
            if not there:
                yield ELSEWHERE.format(path=item.path)
        elif (other := found.get(target.inode)) is not None and other.digest != target.digest:
            # It was written to and then renamed.
            yield ELSEWHERE.format(path=item.path)


def _wrote_into(item: PlanItem) -> bool:
    return all(
        change.before is not None
        and change.after is not None
        and change.before.inode == change.after.inode != ""
        for change in item.taking_back
    )
