"""States that were reached beside the line, kept on it without touching a file.

A step leads from where the files stand to such a state, and the next one back. So
the state is a position like any other, and everything else is as it was.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from agent.workspace.checkpoints import states
from agent.workspace.checkpoints.entries import PathChange, Step
from agent.workspace.checkpoints.states import alike
from agent.workspace.checkpoints.step_log import StepLog
from agent.workspace.checkpoints.store import CheckpointStore

_THERE, _BACK = "aside-", "back-"


def keep_detached(
    store: CheckpointStore, line: str, changes: Iterable[PathChange], root: str, session: str, label: str
) -> int:
    """The position at which `changes` have been made; the line ends where it did. Blocking.

    `before` of a change counts for paths that no step touched. Raises `StoreError`.
    """
    log = store.line(line)
    left = states.left(log.steps())
    known = [(each, left.get(each.path, each.before)) for each in changes]
    there = tuple(PathChange(each.path, now, each.after) for each, now in known if not alike(now, each.after))
    if not there:
        return log.last
    name = secrets.token_hex(6)
    step = log.append(
        kind="restore", session=session, call=f"{_THERE}{name}", label=label, root=root, changes=there
    )
    _lead_back(log, step)
    return step.number


def finish_detached(log: StepLog) -> bool:
    """Lead back from a state where a killed process left the line. Blocking. Raises `StoreError`."""
    steps = log.steps(log.last - 1)
    if not steps or not steps[-1].call.startswith(_THERE):
        return False
    _lead_back(log, steps[-1])
    return True


def _lead_back(log: StepLog, step: Step) -> None:
    log.append(
        kind="restore",
        session=step.session,
        call=_BACK + step.call.removeprefix(_THERE),
        label=f"back from {step.label}",
        root=step.root,
        changes=tuple(PathChange(each.path, each.after, each.before) for each in step.changes),
    )
