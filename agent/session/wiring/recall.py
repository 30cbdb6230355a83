"""Opening of the search over messages and notes (recall) in a Hermes home folder, with all its sources."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.store.store import Store
from agent.errors import ConfigError
from agent.knowledge.memory.service import MemoryFiles, MemoryProvider
from agent.knowledge.recall.embedding import Embedder
from agent.knowledge.recall.recall import Recall
from agent.knowledge.recall.sources import MemoryNotes, RecallSource

if TYPE_CHECKING:
    from agent.core.config.schema import Settings
    from agent.knowledge.recall.meaning import Meaning

log = logging.getLogger(__name__)

AUTO, OFF = "auto", "off"
"""Values of `recall.embeddings` that do not name a model."""


def recall_sources(
    store: Store, home: Home, workspace: Path, settings: Settings, notes: MemoryProvider
) -> list[RecallSource]:
    """Return the sources that a search covers besides messages, as the settings choose them."""
    from agent.integrations.plugins.shelf import skill_catalog
    from agent.knowledge.recall.sources import RecalledLearnings, RecalledSkills

    found: list[RecallSource] = []
    if settings.memory.enabled:
        found.append(MemoryNotes(notes))
    if settings.learnings.enabled:
        found.append(RecalledLearnings(store, workspace))
    if settings.skills.enabled:
        found.append(RecalledSkills(lambda: skill_catalog(home, workspace, settings)))
    return found


def open_meaning(store: Store, settings: Settings, environ: Mapping[str, str]) -> Meaning | None:
    """Return the search by meaning that the settings choose; None if it is disabled or cannot be used.

    Reads only names of files: models are loaded on first use.
    """
    try:
        embedder = embedder_of(settings, environ, store.secrets)
    except ConfigError as error:
        log.warning("recall.embeddings is of no use: %s", error)
        return None
    if embedder is None:
        return None
    from agent.knowledge.recall.meaning import Meaning

    return Meaning(store.file.with_name("vectors.db"), store, embedder)


def embedder_of(
    settings: Settings, environ: Mapping[str, str], secrets: Mapping[str, str]
) -> Embedder | None:
    """Return the source of embeddings that the settings choose, or None. Raises `ConfigError`."""
    wanted = settings.recall.embeddings.strip()
    if wanted == OFF:
        return None
    if wanted == AUTO:
        from agent.knowledge.recall.embedding import folder, shared_embedder

        place = folder()
        return None if place is None else shared_embedder(place)
    from agent.knowledge.recall.embedding import EndpointEmbedder
    from agent.model.providers import resolve

    target = resolve(settings, environ, wanted)[0]
    if target.kind != "chat":
        raise ConfigError(f"{wanted} makes no embeddings; write PROVIDER/MODEL, auto or off.")
    return EndpointEmbedder(target, secrets)


async def open_recall(store: Store, home: Home, workspace: Path) -> Recall:
    """Open the search over messages and notes (recall) for a workspace, outside a session."""
    from agent.core.config.loader import load

    loaded = await asyncio.to_thread(lambda: load(home, dict(os.environ), workspace))
    notes = MemoryFiles(home.memories, workspace)
    return Recall(
        store,
        sources=recall_sources(store, home, workspace, loaded.settings, notes),
        meaning=open_meaning(store, loaded.settings, loaded.environ),
    )
