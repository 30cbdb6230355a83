"""The person's messages on a branch, and what changed since each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.store.nodes import Node
from agent.workspace.checkpoints.entries import PathEntry, Step
from agent.workspace.checkpoints.git_words import step_apart
from agent.workspace.checkpoints.state_listings import alike


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message of the person, which can be taken back."""

    node: int
    text: str
    created: float
    """Seconds since the epoch."""
    step: int
    """The position of the files when it was sent."""
    files: int
    """Files that are no longer as they were then, by what this session did."""


@dataclass(frozen=True, slots=True)
class RewindTarget:
    """Where a person wants to go back to, and with what."""

    node: int
    step: int
    files: bool
    conversation: bool
    look: bool = False
    """Whether files are shown before in any case, so that some of them can be left."""


def back_with(node: int, step: int, what: str) -> RewindTarget:
    """Where to go back to, with `both`, the `conversation`, the `files` or only `some` of these."""
    return RewindTarget(node, step, what != "conversation", what in ("both", "conversation"), what == "some")


def said(path: Sequence[Node], steps: Sequence[Step]) -> list[SaidMessage]:
    """The messages of the person on a path, newest first."""
    places: list[tuple[Node, int]] = []
    position = 0
    for node in path:
        step = node.data.get("step")
        position = step if isinstance(step, int) else position
        if node.kind == "user" and node.data.get("origin") != "engine":
            places.append((node, position))
    since = _Since([step for step in steps if step.kind != "outside"])
    return [
        SaidMessage(node.id, node.content, node.created, step, since.back_to(step))
        for node, step in reversed(places)
    ]


class _Since:
    """How many paths differ from an ever earlier position; each step is looked at once.

    Positions only grow along a path, as its nodes do.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._left = len(steps)
        self._last: dict[str, PathEntry | None] = {}
        self._different: set[str] = set()
        self._git: set[str] = set()
        """Files of git that differ: all of them are one line for a person."""

    def back_to(self, position: int) -> int:
        while self._left and self._steps[self._left - 1].number > position:
            self._left -= 1
            step = self._steps[self._left]
            git = {change.path for change in step_apart(step).git}
            for change in reversed(step.changes):
                different = self._git if change.path in git else self._different
                last = self._last.setdefault(change.path, change.after)
                if alike(change.before, last):
                    different.discard(change.path)
                else:
                    different.add(change.path)
        return len(self._different) + bool(self._git)
