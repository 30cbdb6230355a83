"""The words of `hermes rollback` for plans, steps and results. Pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.plan_items import Choice, PlanItem


NAMED = 20
"""Paths that stay and are named one by one; the others are counted."""


def words(item: PlanItem, choice: Choice) -> str:
    """What would happen to one path."""
    if item.state == "lost":
        return f"stays: {one_line(item.reason)}"
    what = "changes back" if item.now is not None else "comes back"
    if item.target is None:
        what = "goes away"
    if not isinstance(choice, str):
        what = f"changes back in {plural(len(choice.hunks), 'hunk')}"
    if item.state == "change":
        return f"{what}; changed while a command ran, perhaps by you" if item.unnamed else what
    stays = {"mine": "stays", "merge": "is merged"}.get(str(choice), f"{what} all the same")
    return f"▲ {item.reason}; {stays}"


def change_of_git(item: PlanItem) -> str:
    """What going back does to a repository; empty for any other item."""
    return one_line(item.now.reason) if item.is_repository and item.now is not None else ""


def outcome(restored: Restored) -> str:
    """What was done, for a person."""
    lines = []
    if restored.step is not None:
        number = restored.step.number
        lines.append(f"{one_line(restored.what('taken back'))}; this is step {number}.")
        lines.append(f"To undo it: hermes rollback --to {number - 1}")
        if along := one_line(restored.taken_along()):
            lines.append(f"▲ {along[0].upper()}{along[1:]}")
    else:
        lines.append("Nothing was changed.")
    lines += [f"▲ {each[0].upper()}{each[1:]}" for each in map(one_line, restored.remarks)]
    named = restored.skipped[:NAMED]
    lines += [f"▲ {one_line(item.path)} stays as it is: {one_line(item.reason)}" for item in named]
    if more := len(restored.skipped) - len(named):
        lines.append(f"▲ {more:,} more stay as they are")
    return "\n".join(lines)


def step_record(step: Step) -> dict[str, Any]:
    """A step for programs."""
    return {
        "step": step.number,
        "kind": step.kind,
        "label": step.label,
        "created": step.created,
        "paths": [change.path for change in step.changes],
        "git": step.git,
        "coverage": step.coverage.sentence(),
    }


def outcome_record(restored: Restored, plan: RestorePlan) -> dict[str, Any]:
    """What was done, for programs."""
    changes = restored.step.changes if restored.step else ()
    whole = plan.whole and not plan.having("lost")
    return {
        "units": [
            {
                "path": each.path,
                "kind": each.kind,
                "state": "left" if each.reason else "restored",
                "reason": each.reason,
            }
            for each in restored.units
        ],
        "coverage": "full" if whole else "partial",
        "step": restored.step.number if restored.step else None,
        "restored": [change.path for change in changes],
        "unnamed": list(restored.unnamed),
        "remarks": list(restored.remarks),
        "left": [{"path": item.path, "reason": item.reason} for item in restored.skipped],
    }


def moment(seconds: float) -> str:
    """A time as people here write it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
