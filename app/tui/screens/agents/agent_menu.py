"""Files and settings behind the screen of kinds of agents. Everything here may block."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from agent.core.home import Home
from agent.errors import ConfigError
from app.tui.screens.agents import agent_files
from app.tui.screens.agents.agent_files import AgentKind


class AgentMenu:
    """Reads and changes the kinds of agents in one workspace."""

    def __init__(self, workspace: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = workspace
        self._environ = dict(environ)
        self._home = Home.locate(self._environ)

    async def listed(self) -> tuple[list[AgentKind], str]:
        """All kinds, and what keeps those of the project from counting."""
        return await asyncio.to_thread(agent_files.read_kinds, self._home, self._workspace, self._environ)

    async def text(self, kind: AgentKind) -> str:
        """The text of its file. Raises `ConfigError`."""
        return await asyncio.to_thread(agent_files.read_text, kind.path)

    async def new(self, name: str) -> str:
        """A text to begin with. Raises `ConfigError` if the name is none or taken."""
        text = agent_files.new_text(name)
        path = agent_files.own_file(self._home, agent_files.valid_name(name))
        if await asyncio.to_thread(os.path.lexists, path):
            raise ConfigError(f"{path} is there already; edit it, or choose another name.")
        return text

    async def create(self, name: str, text: str) -> None:
        """Write a new file. Raises `ConfigError`."""
        await asyncio.to_thread(agent_files.create, self._home, name, text)

    async def change(self, kind: AgentKind, text: str) -> str:
        """Keep another text for a kind; what to tell. A built-in one gets a file of the person's own."""
        if kind.source == "built-in":
            await asyncio.to_thread(agent_files.create, self._home, kind.name, text)
            return f"{kind.name} is yours now; the built-in one is back when you remove the file."
        await asyncio.to_thread(agent_files.save, kind.path, text)
        if kind.source == "project":
            return "Kept. The project is not trusted any more, as it has changed: hermes config trust."
        return f"{kind.name} is kept."

    def edited(self, text: str) -> str:
        """The text as the person leaves it in their editor. Raises `HermesError`."""
        from app.tui.terminal.editor import edit

        return edit(text)
