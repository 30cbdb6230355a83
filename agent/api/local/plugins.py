"""The plugins of an engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.events import Event, Noticed
from agent.integrations.plugins.commands import PluginCommand
from agent.integrations.plugins.failure import PluginFailure
from agent.integrations.plugins.session_plugins import SessionPlugins


class LocalPlugins:
    """What `PluginCommands` asks for."""

    def __init__(self, plugins: SessionPlugins, emit: Callable[[Event], None]) -> None:
        self._plugins = plugins
        self._emit = emit

    async def commands(self) -> Sequence[PluginCommand]:
        return self._plugins.commands()

    async def run(self, name: str, text: str, show: bool = True) -> str:
        said = await self._plugins.run_command(name, text)
        if show and said.strip():
            self._emit(Noticed(kind="info", text=said))
        return said

    async def failures(self) -> Sequence[PluginFailure]:
        return self._plugins.failures()
