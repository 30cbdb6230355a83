"""The history of an open session as a surface sees it: its tree, its files, going back."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent.core.store.branches import OutlineRow
    from agent.core.store.marks import NodeMark
    from agent.core.store.nodes import BranchHead, Node
    from agent.core.store.operations import Operation, SessionPlace
    from agent.session.history.navigation import NavigationResult
    from agent.workspace.checkpoints.entries import PathChange, Step
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.hunk_restore import Parted
    from agent.workspace.checkpoints.restore.merge import Merged
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.ref_plan import Choice, PlanItem

Choices = Mapping[str, "Choice"]
"""By path: what is to become of a file that is in conflict."""


class SessionHistory(Protocol):
    """The tree of the session: looking at it, going about in it, taking it back.

    Nothing is deleted by any of this. A position is the number of a step of the files.
    """

    async def outline(self) -> Sequence[OutlineRow]:
        """The whole tree in light rows."""
        ...

    async def heads(self) -> Sequence[BranchHead]:
        """The branches, the one in use first."""
        ...

    async def marks(self) -> Sequence[NodeMark]:
        """Labels and bookmarks."""
        ...

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> NodeMark:
        """Label a node (empty takes the label away) or bookmark it; None leaves that part as it is."""
        ...

    async def node(self, node: int) -> Node:
        """A message in full."""
        ...

    async def place(self) -> SessionPlace:
        """Where the session stands."""
        ...

    async def steps(self) -> Sequence[Step]:
        """All steps of files that are still kept, oldest first."""
        ...

    async def position_of(self, node: int | None) -> int:
        """Where the files stood at a node."""
        ...

    async def changes(self, first: int, second: int) -> Sequence[PathChange]:
        """What leads from one position of the files to another."""
        ...

    async def contents(self, digest: str) -> bytes:
        """Contents that a change names."""
        ...

    async def plan(self, position: int) -> RestorePlan:
        """What taking files back to a position would do."""
        ...

    async def merged(self, item: PlanItem) -> Merged | None:
        """A conflict with both sides put together; None where that makes no sense."""
        ...

    async def parted(self, item: PlanItem, *, merging: bool = False) -> Parted:
        """A file of a plan in hunks; with `merging` towards both sides put together."""
        ...

    def restore(self, plan: RestorePlan, choices: Choices | None = None) -> Awaitable[Restored]:
        """Carry out a plan for files only."""
        ...

    def rewind(
        self, node: int, *, files: bool = True, conversation: bool = True, choices: Choices | None = None
    ) -> Awaitable[NavigationResult]:
        """Back to before a message of the person, which becomes a draft again."""
        ...

    def fork(
        self,
        node: int,
        name: str = "",
        *,
        files: bool = False,
        carry_over: bool = False,
        choices: Choices | None = None,
    ) -> Awaitable[NavigationResult]:
        """Go on from a node on a branch of its own; with `carry_over` it begins with a note of the rest."""
        ...

    def switch(
        self, head: str, *, files: bool = True, choices: Choices | None = None
    ) -> Awaitable[NavigationResult]:
        """Go on with another branch, its files with it."""
        ...

    def rename(self, head: str, name: str) -> Awaitable[None]:
        """Give a branch another name."""
        ...

    async def undoable(self) -> Operation | None:
        """What an undo takes back here."""
        ...

    async def redoable(self) -> Operation | None:
        """What a redo does again."""
        ...

    def undo(self, choices: Choices | None = None) -> Awaitable[tuple[Operation, NavigationResult]]:
        """Back to before the last turn, restore, switch or fork."""
        ...

    def redo(self, choices: Choices | None = None) -> Awaitable[tuple[Operation, NavigationResult]]:
        """Do again what was undone last."""
        ...
