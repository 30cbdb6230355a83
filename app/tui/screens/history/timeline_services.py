"""The interface of the timeline to the session: the tree, its files, and the actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent.core.store.branches import OutlineRow
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import BranchHead, Node

What = Literal["both", "conversation", "files", "some"]
"""The parts that a restore brings back; with `some`, files are chosen one by one."""


@dataclass(frozen=True, slots=True)
class FileDifferenceRow:
    """The change of a file between two points. Counts of lines are None if they cannot be counted."""

    path: str
    kind: Literal["added", "changed", "deleted"] = "changed"
    added: int | None = None
    removed: int | None = None
    note: str = ""
    """Further information, such as `binary` or `mode 644 → 755`."""


@dataclass(frozen=True, slots=True)
class Sides:
    """A file's text at two points; None if the file is missing or not text that can be shown."""

    before: str | None
    after: str | None
    note: str = ""
    """The reason why a side cannot be shown; empty if both can."""


class TimelineServices(Protocol):
    """The services that the timeline calls. Each raises `HermesError` with a sentence; nodes are given by
    id.
    """

    async def nearby(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        """Return at most `count` rows around the node `at`, or before the end of the branch in use.

        They are painted while the whole tree is read, so this must be quick. May be empty.
        """
        ...

    async def outline(self) -> Sequence[OutlineRow]:
        """Return the whole tree."""
        ...

    async def heads(self) -> Sequence[BranchHead]:
        """Return the branches, the one in use first."""
        ...

    async def marks(self) -> Sequence[NodeMark]:
        """Return labels and bookmarks."""
        ...

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> object:
        """Label a node (an empty label removes it) or bookmark it; None changes nothing."""
        ...

    async def node(self, node: int) -> Node:
        """Return a complete node."""
        ...

    async def steps(self) -> Mapping[int, Sequence[str]]:
        """Return the files that each step of the session changed, by the step's number."""
        ...

    async def labels(self) -> Mapping[int, str]:
        """Return the cause of each step, such as `write src/app.py`, by the step's number."""
        ...

    async def counts(self, steps: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        """Return the lines added and removed by each step; steps without text are left out."""
        ...

    async def files_of(self, steps: Sequence[int]) -> Sequence[FileDifferenceRow]:
        """Return the combined file changes of these steps, which are given oldest first."""
        ...

    async def difference(self, one: int, other: int) -> Sequence[FileDifferenceRow]:
        """Return the file changes from one node to another, ordered by path."""
        ...

    async def sides(self, one: int, other: int, path: str) -> Sides:
        """Return a file's text at two nodes."""
        ...

    async def restore(self, node: int, what: What) -> str:
        """Go back to a node after a preview; return a sentence about it, empty if the person declined."""
        ...

    async def fork(self, node: int, name: str, *, carry_over: bool = False) -> str:
        """Start a branch at a node and switch to it; return a sentence about it, or empty.

        With `carry_over`, the branch starts with a note for the model about the later work on the old branch.
        """
        ...

    async def switch(self, head: str) -> str:
        """Switch to another branch; return a sentence about it, or empty."""
        ...

    async def rename(self, head: str, name: str) -> str:
        """Rename a branch; return a sentence about it, or empty."""
        ...

    async def export(self, node: int) -> str:
        """Export the branch up to a node; return a sentence about it, or empty."""
        ...
