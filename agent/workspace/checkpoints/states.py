"""States read off the steps of a line: where a path was, what tells two positions apart. Pure.

Position `n` is the state after step `n`. Steps come oldest first; numbers only
rise, with gaps where steps were lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step

State = dict[str, PathEntry | None]
"""How paths stood; None: nothing was there. A path that is missing was never touched."""


def between(steps: Sequence[Step], after: int, upto: int) -> Sequence[Step]:
    """The steps with `after < number <= upto`."""
    return steps[_behind(steps, after) : _behind(steps, upto)]


def targets(steps: Sequence[Step], position: int) -> State:
    """What to make of each path that changed after `position`, to be back there."""
    found: State = {}
    for step in steps[_behind(steps, position) :]:
        for change in step.changes:
            found.setdefault(change.path, change.before)
    return found


def left(steps: Iterable[Step]) -> State:
    """How the last step that changed a path left it."""
    return {change.path: change.after for step in steps for change in step.changes}


def difference(steps: Sequence[Step], first: int, second: int) -> tuple[PathChange, ...]:
    """What leads from position `first` to position `second`, in order of the paths; either may be earlier."""
    if first > second:
        return tuple(
            PathChange(each.path, each.after, each.before) for each in difference(steps, second, first)
        )
    found: dict[str, PathChange] = {}
    for step in between(steps, first, second):
        for change in step.changes:
            known = found.get(change.path)
            found[change.path] = PathChange(
                change.path, known.before if known else change.before, change.after
            )
    return tuple(found[path] for path in sorted(found) if not alike(found[path].before, found[path].after))


def broken(steps: Sequence[Step], position: int = 0) -> dict[str, tuple[int, ...]]:
    """Paths that somebody else changed between two steps after `position`.

    Gives the numbers of the steps that found a path other than the step before them left it.
    """
    known: State = {}
    found: dict[str, list[int]] = {}
    for step in steps[_behind(steps, position) :]:
        for change in step.changes:
            if change.path in known and not alike(known[change.path], change.before):
                found.setdefault(change.path, []).append(step.number)
            known[change.path] = change.after
    return {path: tuple(numbers) for path, numbers in found.items()}


def alike(one: PathEntry | None, other: PathEntry | None) -> bool:
    """Whether a restore would make the same of both."""
    return other is None if one is None else one.same(other)


def _behind(steps: Sequence[Step], number: int) -> int:
    """Index of the first step above `number`."""
    return bisect_right(steps, number, key=lambda step: step.number)
