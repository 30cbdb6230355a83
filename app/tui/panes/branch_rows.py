"""Rows of the panes after a switch to another branch: its last calls, its files."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from agent.core.store.nodes import Node
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.git_words import git_apart
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
    """Return the files that the session changed since its beginning. Raises `HermesError`."""
    return await _rows(history, await _files(history))


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
