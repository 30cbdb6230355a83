"""What the model picker needs of files, environment and network; everything here may block or wait."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.home import Home

if TYPE_CHECKING:
    from agent.config.loader import Loaded
    from agent.model.choices import Choice


class ModelMenu:
    """Reads what can be chosen in one workspace, and keeps a choice."""

    def __init__(self, workspace: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = workspace
        self._environ = dict(environ)
        self._home = Home.locate(self._environ)

    async def listed(self) -> list[Choice]:
        """What settings, providers and this machine offer, without asking anybody."""
        return await asyncio.to_thread(self._list)

    async def found(self) -> list[Choice]:
        """The models of servers that run on this machine; takes up to a third of a second."""
        from agent.model.choices import ports, served
        from agent.model.detect import detect

        loaded = await asyncio.to_thread(self._load)
        servers = await detect(ports(loaded.settings))
        return await asyncio.to_thread(served, loaded.settings, loaded.environ, self._home, servers)

    async def keep(self, name: str) -> str:
        """Make a model the default of new sessions; returns what to tell. Raises `ConfigError`."""
        from agent.config.edit import set_setting
        from agent.model.providers import MODEL

        await asyncio.to_thread(set_setting, self._home, "model.name", name)
        loaded = await asyncio.to_thread(self._load)
        if (other := loaded.environ.get(MODEL, "").strip()) and other != name:
            return f"{name} is kept in config.yaml, but {MODEL} is set to {other} and counts more."
        return f"New sessions begin with {name}."

    def _list(self) -> list[Choice]:
        from agent.model.choices import choices

        loaded = self._load()
        return choices(loaded.settings, loaded.environ, self._home)

    def _load(self) -> Loaded:
        from agent.config.loader import load

        return load(self._home, self._environ, self._workspace)
