"""Recall of one home, with all its sources."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent.home import Home
from agent.memory.service import MemoryFiles, MemoryProvider
from agent.recall.memory_source import MemoryNotes
from agent.recall.recall import Recall
from agent.recall.sources import RecallSource
from agent.store.store import Store

if TYPE_CHECKING:
    from agent.config.schema import Settings


def recall_sources(
    store: Store, home: Home, workspace: Path, settings: Settings, notes: MemoryProvider
) -> list[RecallSource]:
    """What is ranked beside messages in a workspace, as the settings have it."""
    from agent.plugins.skill_catalog import skill_catalog
    from agent.recall.learnings_source import RecalledLearnings
    from agent.recall.skills_source import RecalledSkills

    found: list[RecallSource] = []
    if settings.memory.enabled:
        found.append(MemoryNotes(notes))
    if settings.learnings.enabled:
        found.append(RecalledLearnings(store, workspace))
    if settings.skills.enabled:
        found.append(RecalledSkills(lambda: skill_catalog(home, workspace, settings)))
    return found


async def open_recall(store: Store, home: Home, workspace: Path) -> Recall:
    """What can be recalled where a person stands."""
    from agent.config.loader import load

    loaded = await asyncio.to_thread(lambda: load(home, dict(os.environ), workspace))
    notes = MemoryFiles(home.memories, workspace)
    return Recall(store, sources=recall_sources(store, home, workspace, loaded.settings, notes))
