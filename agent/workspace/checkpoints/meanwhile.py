"""Changes of a workspace while a session was not looking: by other sessions, by people, by `hermes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathChange, Step
from agent.workspace.checkpoints.root_identity import strangers
from agent.workspace.checkpoints.states import alike
from agent.workspace.checkpoints.store import CheckpointStore
from tools.text.safe_text import clean

NAMED = 12
"""Paths of each kind that a sentence names."""


def steps_since(store: CheckpointStore, root: str, moment: float) -> tuple[Step, ...]:
    """The steps of all sessions in the workspace `root` after `moment`, oldest first.

    `moment` is in seconds since the epoch. A line that cannot be read is passed over. Blocking.
    """
    found: list[Step] = []
    for session in store.sessions():
        line = store.line(session)
        try:
            if line.path.stat().st_mtime < moment:
                continue
            steps = line.steps()
        except (OSError, StoreError):
            continue
        found += [step for step in steps if step.created > moment and step.root == root]
    strange = set(map(id, strangers(found, Path(root))))
    found = [step for step in found if id(step) not in strange]
    return tuple(sorted(found, key=lambda step: (step.created, step.number)))


def net(steps: Sequence[Step]) -> tuple[PathChange, ...]:
    """What steps come to, oldest first, in order of the paths. Pure."""
    found: dict[str, PathChange] = {}
    for step in steps:
        for change in step.changes:
            known = found.get(change.path)
            found[change.path] = PathChange(
                change.path, known.before if known else change.before, change.after
            )
    return tuple(found[path] for path in sorted(found) if not alike(found[path].before, found[path].after))


def named(changes: Sequence[PathChange]) -> str:
    """The paths of changes by what became of them: `changed a, b; new c; gone d`. Pure."""
    kinds = {"changed": [], "new": [], "gone": []}
    for change in changes:
        kind = "new" if change.before is None else "gone" if change.after is None else "changed"
        kinds[kind].append(clean(change.path))
    parts = []
    for kind, paths in kinds.items():
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        parts += [f"{kind} {', '.join(paths[:NAMED])}{more}"] if paths else []
    return "; ".join(parts)


def path_count(changes: tuple[PathChange, ...], what: str) -> str:
    """How many paths, for the label of a step. Pure."""
    return f"{len(changes):,} {'path' if len(changes) == 1 else 'paths'} {what}"
