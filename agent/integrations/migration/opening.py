"""Opening what a takeover writes to: the store, memory, skills, settings and rules of one home."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.store.store import Store
from agent.integrations.migration.taking_over import Takeover
from agent.knowledge.skills.hub.service import open_hub
from agent.safety.permissions.subjects import Setting


@asynccontextmanager
async def open_takeover(
    home: Home, environ: Mapping[str, str], here: Path, secrets: Mapping[str, str]
) -> AsyncIterator[Takeover]:
    """What takes things over into `home`. `secrets` never stand in titles. Raises `HermesError`."""
    loaded = load(home, dict(environ), here)
    hub = open_hub(home, loaded.settings, loaded.environ, here)
    async with await Store.open(home.database, secrets=secrets) as store:
        yield Takeover(home, store, loaded.settings, hub, Setting(here, home.root))
