"""Rows of the panes after a switch to another branch: its last calls, its files."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from agent.core.store.nodes import Node
from agent.workspace.checkpoints.entries import PathChange, Step
from agent.workspace.checkpoints.git_words import git_apart
from agent.workspace.checkpoints.state_listings import alike
from app.tui.conversation.replay import call_at
from app.tui.screens.history.timeline_files import FileChanges, diff_of
from widgets.panes.files import PaneFileChange
from widgets.transcript.parts import CallItem

if TYPE_CHECKING:
    from agent.session.history.navigation import HistoryNavigation

CALLS = 200
"""Number of a branch's calls that the log shows."""
FILES = 100
"""Number of a branch's files that the pane shows."""
_KINDS = {"added": "added", "changed": "modified", "deleted": "removed"}


def last_calls(path: Sequence[Node]) -> list[tuple[CallItem, float]]:
    """Return the last calls of a path, oldest first, each with its end in seconds since the epoch."""
    from tools.registry import registry

    backwards = (at for at in range(len(path) - 1, -1, -1) if path[at].kind == "tool")
    return [(call_at(path, at, registry), path[at].created) for at in [*islice(backwards, CALLS)][::-1]]


async def panes_of(history: HistoryNavigation) -> list[PaneFileChange]:
    """Return the files that the session changed since its beginning, without those that the project
    ignores. Raises `HermesError`.
    """
    return await _rows(history, await history.without_ignored(await _files(history)))


async def net_changes(history: HistoryNavigation, paths: Container[str]) -> dict[str, PaneFileChange | None]:
    """Return what is left of the changes of some files since the session's beginning, None for nothing.

    Files of which no step is kept are missing, and so are those that others changed as well.
    """
    net = await asyncio.to_thread(_net, await history.steps(), paths)
    left = [each for each in net if not alike(each.before, each.after)]
    rows = {row.path: row for row in await _rows(history, left)}
    return {each.path: rows.get(each.path) for each in net[:FILES]}


def _net(steps: Sequence[Step], paths: Container[str]) -> list[PathChange]:
    net: dict[str, PathChange] = {}
    others: set[str] = set()
    for step in steps:
        for change in step.changes:
            if change.path in paths:
                others.update([change.path] * (step.kind == "outside"))
                first = net.get(change.path, change)
                net[change.path] = PathChange(change.path, first.before, change.after)
    return [each for path, each in net.items() if path not in others]


async def ignored_files(history: HistoryNavigation, listed: Container[str]) -> list[PaneFileChange]:
    """Return the changed files that are not `listed`: the watcher omits only ignored files."""
    changes = await _files(history)
    return await _rows(
        history, [each for each in changes if each.path not in listed and not each.path.startswith("/")]
    )


async def _files(history: HistoryNavigation) -> list[PathChange]:
    """Return all changes from the beginning to now, without folders and files internal to git."""
    changes = await history.changes(0, (await history.place()).step)
    sides = ((each, each.after or each.before) for each in git_apart(changes).files)
    return [each for each, entry in sides if entry is not None and entry.kind.value != "folder"]


async def _rows(history: HistoryNavigation, changes: Sequence[PathChange]) -> list[PaneFileChange]:
    files = FileChanges(history.contents)
    found: list[PaneFileChange] = []
    for change, told in zip(changes[:FILES], await files.describe_all(changes[:FILES]), strict=True):
        diff, _ = await asyncio.to_thread(diff_of, told, await files.sides(change))
        kind = _KINDS[told.kind]
        found.append(PaneFileChange(told.path, told.added or 0, told.removed or 0, diff, kind))  # type: ignore[arg-type]
    return found
