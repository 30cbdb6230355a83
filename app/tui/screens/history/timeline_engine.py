"""The services of the timeline: the tree of the open session, its files, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.core.store.branches import OutlineRow, ended_as
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import BranchHead, Node, first_line
from agent.core.store.stored_path import position_of, with_ids
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.git_words import git_apart, step_apart, step_names
from agent.workspace.checkpoints.unit_marks import units_of
from app.tui.commands.history_actions import HistoryActions
from app.tui.screens.history.timeline_files import FileChanges
from app.tui.screens.history.timeline_services import FileDifferenceRow, Sides, What
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient


class EngineTimeline:
    """The services that the timeline calls. Each raises `HermesError`; nodes are given by id."""

    def __init__(self, client: SessionClient, history_actions: HistoryActions) -> None:
        self._client = client
        self._history = client.history
        self._history_actions = history_actions
        self._files = FileChanges(self._history.contents)

    # The tree

    async def nearby(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        """Return at most `count` rows around the node `at`, or before the end of the branch in use.

        They are painted while the whole tree is read, so this must be quick. May be empty.
        """
        path = self._client.path
        end = position_of(path, at) + 1 if at is not None and with_ids(path, [at]) else len(path)
        start = max(min(end + count // 2, len(path)) - count, 0)
        near = path[start : start + count]
        return [_row(node) for node in near if node.kind != "inner"]

    async def outline(self) -> Sequence[OutlineRow]:
        return await self._history.outline()

    async def heads(self) -> Sequence[BranchHead]:
        return await self._history.heads()

    async def marks(self) -> Sequence[NodeMark]:
        return await self._history.marks()

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> NodeMark:
        return await self._history.mark(node, label=label, bookmarked=bookmarked)

    async def node(self, node: int) -> Node:
        return await self._history.node(node)

    # Files

    async def steps(self) -> Mapping[int, Sequence[str]]:
        """Return the files that each step of the session changed, by the step's number."""
        return {step.number: step_names(step) for step in await self._history.steps()}

    async def labels(self) -> Mapping[int, str]:
        """Return the cause of each step, such as `write src/app.py`, by the step's number."""
        # Changes by others in between do not belong to the call.
        return {step.number: step.label for step in await self._history.steps() if step.kind != "outside"}

    async def counts(self, steps: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        """Return the lines added and removed by each step; steps without text are left out."""
        wanted = set(steps)
        found: dict[int, tuple[int, int]] = {}
        for step in await self._history.steps():
            if step.number in wanted:
                told = await self._files.describe_all(step_apart(step).files)
                if any(each.added is not None for each in told):
                    found[step.number] = (sum(e.added or 0 for e in told), sum(e.removed or 0 for e in told))
        return found

    async def files_of(self, steps: Sequence[int]) -> Sequence[FileDifferenceRow]:
        """Return the combined file changes of these steps, which are given oldest first."""
        wanted = set(steps)
        those = [step for step in await self._history.steps() if step.number in wanted]
        found = state_listings.difference(those, min(wanted) - 1, max(wanted))
        told = await self._files.describe_all(git_apart(found, units_of(those)).files)
        # Changes of git by several steps are one line each.
        return [*told, *(FileDifferenceRow(".git", note=step.git) for step in those if step.git)]

    async def difference(self, one: int, other: int) -> Sequence[FileDifferenceRow]:
        return await self._files.describe_all(await self._changes(one, other))

    async def sides(self, one: int, other: int, path: str) -> Sides:
        for change in await self._changes(one, other):
            if change.path == path:
                return await self._files.sides(change)
        return Sides(None, None, "This file is the same at both points.")

    async def _changes(self, one: int, other: int) -> Sequence[PathChange]:
        first, second = await self._history.position_of(one), await self._history.position_of(other)
        return await self._history.changes(first, second)

    # Actions

    async def restore(self, node: int, what: What) -> str:
        return await self._history_actions.back_to(node, what)

    async def fork(self, node: int, name: str, *, carry_over: bool = False) -> str:
        return await self._history_actions.fork(node, name, carry_over=carry_over)

    async def switch(self, head: str) -> str:
        return await self._history_actions.switch(head)

    async def rename(self, head: str, name: str) -> str:
        return await self._history_actions.rename(head, name)

    async def export(self, node: int) -> str:
        """Write the conversation up to a node as a self-contained HTML page."""
        file = await self._client.export(node)
        return f"Written to {file}; it shows everything up to here, secrets masked."


def _row(node: Node) -> OutlineRow:
    data = node.data
    step, usage, calls = data.get("step"), data.get("usage"), data.get("calls")
    tokens = usage.get("output") if isinstance(usage, dict) else None
    state = data.get("state")
    return OutlineRow(
        node.id,
        node.parent,
        node.kind,
        node.created,
        clean(first_line(node.content[:400])),
        step if isinstance(step, int) else None,
        str(data.get("tool") or ""),
        ended_as(data.get("outcome") or (state if state != "complete" else ""), node.kind, node.content),
        str(data.get("origin") or ""),
        tokens if isinstance(tokens, int) else None,
        len(calls) if isinstance(calls, list) else 0,
    )
