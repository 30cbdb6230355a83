"""Finds the operation an undo or a redo means, where several windows work on one session.

Each of them has a branch of its own, while operations and steps of files are those of the session:
the newest one may be another window's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.core.store.operations import Operation
from agent.errors import HermesError


def to_undo(done: Sequence[Operation], path: Sequence[int]) -> Operation | None:
    """The newest operation that stands and led along `path`, the nodes of the conversation. Pure.

    `done` are the operations of the session, oldest first. Raises `HermesError` where files were changed
    on another branch since: taking back would take that along.
    """
    here = _places(path)
    found = next((each for each in reversed(done) if not each.undone and each.after.node in here), None)
    return _alone(found, done)


def to_redo(done: Sequence[Operation], path: Sequence[int]) -> Operation | None:
    """The operation that was undone last of those that begin on `path`. Pure. Raises as `to_undo` does."""
    here = _places(path)
    undone = (each for each in done if each.undone and each.before.node in here)
    found = max(undone, key=lambda each: (here[each.before.node], -each.number), default=None)
    return _alone(found, done)


def _places(path: Sequence[int]) -> Mapping[int | None, int]:
    """How far along the path each node is; before the first one is on it as well."""
    return {None: -1, **{node: at for at, node in enumerate(path)}}


def _alone(found: Operation | None, done: Iterable[Operation]) -> Operation | None:
    if found is not None:
        for each in done:
            if each.number > found.number and not each.undone and each.before.step != each.after.step:
                raise HermesError(
                    f"Since then files were changed on branch {each.after.head} ({each.label}); "
                    "undo that there first, or choose files in /timeline."
                )
    return found
