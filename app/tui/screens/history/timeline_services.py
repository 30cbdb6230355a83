"""The services the timeline needs: the tree, its files, and what can be done there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent.core.store.branches import OutlineRow
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import BranchHead, Node

What = Literal["both", "conversation", "files", "some"]
"""What a restore brings back; `some` are files that are chosen one by one."""


@dataclass(frozen=True, slots=True)
class FileDifferenceRow:
    """How a file differs between two points. Lines are None where they cannot be counted."""

    path: str
    kind: Literal["added", "changed", "deleted"] = "changed"
    added: int | None = None
    removed: int | None = None
    note: str = ""
    """What else there is to say, such as `binary` or `mode 644 → 755`."""


@dataclass(frozen=True, slots=True)
class Sides:
    """A file at two points; None where it was not there, or is not text that can be shown."""

    before: str | None
    after: str | None
    note: str = ""
    """Why a side cannot be shown; empty when it can."""


class TimelineServices(Protocol):
    """Every method raises `HermesError` with a sentence for the person. Nodes are named by their ids."""

    async def nearby(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        """At most `count` rows around the node `at`, or before the end of the branch in use.

        This is painted while the whole tree is read, so it must be quick. May be empty.
        """
        ...

    async def outline(self) -> Sequence[OutlineRow]:
        """The whole tree."""
        ...

    async def heads(self) -> Sequence[BranchHead]:
        """The branches; the one in use comes first."""
        ...

    async def marks(self) -> Sequence[NodeMark]:
        """Labels and bookmarks."""
        ...

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> object:
        """Label a node (empty takes the label away) or bookmark it; None leaves that part as it is."""
        ...

    async def node(self, node: int) -> Node:
        """A message in full."""
        ...

    async def steps(self) -> Mapping[int, Sequence[str]]:
        """The files that each step of the session touched, by the number of the step."""
        ...

    async def labels(self) -> Mapping[int, str]:
        """What made each step, such as `write src/app.py`, by the number of the step."""
        ...

    async def counts(self, steps: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        """Lines that each step added and removed; steps without text are left out."""
        ...

    async def files_of(self, steps: Sequence[int]) -> Sequence[FileDifferenceRow]:
        """What these steps, oldest first, did to files in all."""
        ...

    async def difference(self, one: int, other: int) -> Sequence[FileDifferenceRow]:
        """What leads from the files at one node to those at another, in order of the paths."""
        ...

    async def sides(self, one: int, other: int, path: str) -> Sides:
        """A file as it was at two nodes."""
        ...

    async def restore(self, node: int, what: What) -> str:
        """Go back to a node, with a preview that can be declined. What happened, in a sentence, or empty."""
        ...

    async def fork(self, node: int, name: str, *, carry_over: bool = False) -> str:
        """Begin a branch at a node and go on there. What happened, in a sentence, or empty.

        With `carry_over` it begins with a note for the model of what was done on the branch in use since.
        """
        ...

    async def switch(self, head: str) -> str:
        """Go on with another branch. What happened, in a sentence, or empty."""
        ...

    async def rename(self, head: str, name: str) -> str:
        """Give a branch another name. What happened, in a sentence, or empty."""
        ...

    async def export(self, node: int) -> str:
        """Export the branch up to a node. What happened, in a sentence, or empty."""
        ...
