"""Folders as data: what stands in one, and steps between two looks at it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import Restored, apply_restore
from agent.workspace.checkpoints.restore.plan import RestorePlan, plan_back, plan_restore
from agent.workspace.checkpoints.restore.ref_plan import Choice
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.store import CheckpointStore

LIMIT = 1_000_000
LINE = "session"

Tree = dict[str, tuple[str, int, bytes]]
"""Kind, mode and contents (or target) of every path."""


def look(root: Path) -> Tree:
    """Everything below a folder, exactly."""
    found: Tree = {}
    for path in sorted(root.rglob("*"), key=os.fsencode):
        status = path.lstat()
        name = str(path.relative_to(root))
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", 0, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            found[name] = ("folder", stat.S_IMODE(status.st_mode), b"")
        else:
            found[name] = ("file", stat.S_IMODE(status.st_mode), path.read_bytes())
    return found


def taken_back(recorder: StepRecorder, position: int) -> Restored:
    """Go back to a position as `hermes rollback` does, beside the recorder."""
    store, line = recorder.store, recorder.store.line(recorder.line)
    with store.sharing():
        plan = plan_back(line, recorder.root, position, store.objects, limit=recorder.limits.file, others=())
    return apply_restore(plan, {}, store, line.session, session=line.session, label="back")


@dataclass
class Workspace:
    """A folder with a line of steps."""

    root: Path
    store: CheckpointStore

    def state(self) -> dict[str, PathEntry | None]:
        """Entries of everything, with contents in the store."""
        paths = [str(path.relative_to(self.root)) for path in self.root.rglob("*")]
        return {path: capture_path(self.root, path, self.store.objects, limit=LIMIT) for path in paths}

    def step(self, before: dict[str, PathEntry | None], call: str = "call") -> Step:
        """Write down what changed since `before` as a step of ours."""
        after = self.state()
        changes = [
            PathChange(path, before.get(path), after.get(path))
            for path in sorted({*before, *after})
            if not alike(before.get(path), after.get(path))
        ]
        line = self.store.line(LINE)
        return line.append(
            kind="tool", session=LINE, call=call, label="a step", root=str(self.root), changes=changes
        )

    def plan(self, position: int, paths: list[str] | None = None) -> RestorePlan:
        steps = self.store.line(LINE).steps()
        return plan_restore(self.root, steps, position, self.store.objects, limit=LIMIT, paths=paths)

    def restore(self, position: int, choices: dict[str, Choice] | None = None) -> Restored:
        return self.apply(self.plan(position), choices)

    def apply(self, plan: RestorePlan, choices: dict[str, Choice] | None = None) -> Restored:
        return apply_restore(plan, choices or {}, self.store, LINE, session=LINE, label="back")

    def undo(self) -> Restored:
        """Take the last step back."""
        return self.restore(self.store.line(LINE).last - 1)
