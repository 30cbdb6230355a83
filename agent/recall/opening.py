"""The recall of one home, with all its sources."""

from __future__ import annotations

from pathlib import Path

from agent.home import Home
from agent.memory.service import MemoryFiles
from agent.recall.memory_source import MemoryNotes
from agent.recall.recall import Recall
from agent.store.store import Store


async def open_recall(store: Store, home: Home, workspace: Path) -> Recall:
    """What can be recalled where a person stands."""
    return Recall(store, sources=[MemoryNotes(MemoryFiles(home.memories, workspace))])
