"""What `hermes rollback` says of a plan, of steps and of what was done. Pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tools.text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import Choice, PlanItem


def words(item: PlanItem, choice: Choice) -> str:
    """What would happen to one path."""
    if item.state == "lost":
        return f"stays: {one_line(item.reason)}"
    what = "changes back" if item.now is not None else "comes back"
    if item.target is None:
        what = "goes away"
    if not isinstance(choice, str):
        what = f"changes back in {len(choice.hunks):,} hunk{'s' * (len(choice.hunks) != 1)}"
    if item.state == "change":
        return what
    stays = {"mine": "stays", "merge": "is merged"}.get(str(choice), f"{what} all the same")
    return f"▲ {item.reason}; {stays}"


def outcome(restored: Restored) -> str:
    """What was done, for a person."""
    lines = []
    if restored.step is not None:
        number, count = restored.step.number, len(restored.step.changes)
        lines.append(f"{count:,} {'path' if count == 1 else 'paths'} taken back; this is step {number}.")
        lines.append(f"To undo it: hermes rollback --to {number - 1}")
    else:
        lines.append("Nothing was changed.")
    lines += [f"▲ {one_line(item.path)} stays as it is: {one_line(item.reason)}" for item in restored.skipped]
    return "\n".join(lines)


def step_record(step: Step) -> dict[str, Any]:
    """A step for programs."""
    return {
        "step": step.number,
        "kind": step.kind,
        "label": step.label,
        "created": step.created,
        "paths": [change.path for change in step.changes],
        "coverage": step.coverage.sentence(),
    }


def outcome_record(restored: Restored) -> dict[str, Any]:
    """What was done, for programs."""
    changes = restored.step.changes if restored.step else ()
    return {
        "step": restored.step.number if restored.step else None,
        "restored": [change.path for change in changes],
        "left": [{"path": item.path, "reason": item.reason} for item in restored.skipped],
    }


def moment(seconds: float) -> str:
    """A time as people here write it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def one_line(text: str) -> str:
    """Outside text on one line."""
    return " ".join(clean(text).split())
