"""Rows of the panes for a conversation that goes on elsewhere: its last calls, its files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.api.history import Node
from app.conversation.replay import call_at
from app.screens.history.file_changes import FileChanges
from app.screens.history.timeline_files import diff_of
from widgets.panes.files import PaneFileChange
from widgets.transcript.items import CallItem

if TYPE_CHECKING:
    from agent.api.session import SessionHistory

CALLS = 200
"""Calls that the log shows of a branch."""
FILES = 100
"""Files that the pane shows of a branch."""
_KINDS = {"added": "added", "changed": "modified", "deleted": "removed"}


def last_calls(path: Sequence[Node]) -> list[tuple[CallItem, float]]:
    """The last calls of a path, oldest first, each with the time it ended (seconds since the epoch)."""
    from tools.registry import registry

    tools = [at for at, node in enumerate(path) if node.kind == "tool"][-CALLS:]
    return [(call_at(path, at, registry), path[at].created) for at in tools]


async def panes_of(history: SessionHistory) -> list[PaneFileChange]:
    """How files differ from the beginning of the session, by what it did. Raises `HermesError`."""
    changes = await history.changes(0, (await history.place()).step)
    files = FileChanges(history.contents)
    found: list[PaneFileChange] = []
    for change, told in zip(changes[:FILES], await files.described(changes[:FILES]), strict=True):
        diff, _ = await asyncio.to_thread(diff_of, told, await files.sides(change))
        kind = _KINDS[told.kind]
        found.append(PaneFileChange(told.path, told.added or 0, told.removed or 0, diff, kind))  # type: ignore[arg-type]
    return found
