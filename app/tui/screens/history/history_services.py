"""The services of the screens for rewinding and comparing, backed by the open session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from agent.session.history.branch_comparison import BranchComparison
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.restore.hunk_restore import Parted
from agent.workspace.checkpoints.restore.ref_plan import PlanItem
from app.tui.conversation.replay import newest_first
from app.tui.screens.history.compare import CompareServices
from app.tui.screens.history.restoring import RestoreServices
from app.tui.screens.history.rewind import RewindServices, SaidMessage
from app.tui.screens.history.timeline_files import FileChanges
from widgets.transcript.parts import Item

if TYPE_CHECKING:
    from agent.api.session import SessionClient


def restore_services(client: SessionClient) -> RestoreServices:
    """Return the services of the restore preview."""
    history = client.history
    files = FileChanges(history.contents)

    async def load_hunks(item: PlanItem, merging: bool) -> Parted:
        return await history.split_hunks(item, merging=merging)

    return RestoreServices(files.describe_all, files.sides, history.merge_conflict, load_hunks)


def rewind_services(
    said: Callable[[], Awaitable[Sequence[SaidMessage]]], client: SessionClient
) -> RewindServices:
    """Return the services of the list of messages."""
    history = client.history
    files = FileChanges(history.contents)

    async def changes(position: int) -> Sequence[PathChange]:
        return await history.changes(position, (await history.place()).step)

    plan = history.plan if client.keeps_files else None
    return RewindServices(said, changes, plan, files.describe_all)


def compare_services(client: SessionClient, left: str, right: str) -> CompareServices:
    """Return the services for comparing two branches, given by name."""
    from tools.registry import registry

    files = FileChanges(client.history.contents)

    async def compare_branches() -> tuple[BranchComparison, Sequence[Item], Sequence[Item]]:
        found = await client.compare(left, right)
        return (
            found,
            list(newest_first(found.left.nodes, registry))[::-1],
            list(newest_first(found.right.nodes, registry))[::-1],
        )

    return CompareServices(compare_branches, files.describe_all, files.sides)
