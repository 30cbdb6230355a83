"""The plugins of an open session, and their slash commands for all surfaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.events import Event, Noticed
from agent.integrations.plugins.process import PluginFailure
from agent.integrations.plugins.registrations import PluginCommand
from agent.integrations.plugins.session_plugins import SessionPlugins

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings


async def open_plugins(
    home: Home,
    workspace: Path,
    loaded: LoadedSettings,
    secrets: Mapping[str, str],
    emit: Callable[[Event], None],
) -> SessionPlugins:
    """Return the enabled plugins of a workspace. Never raises for a plugin's faults."""

    def find() -> SessionPlugins:
        from agent.integrations.plugins.installing import PluginEnvironment
        from agent.integrations.plugins.session_plugins import found_plugins

        around = PluginEnvironment.of(home, workspace, loaded.environ, loaded.settings.sandbox.mode, secrets)
        return found_plugins(around, lambda text: emit(Noticed(kind="warning", text=text)))

    return await asyncio.to_thread(find)


class PluginCommands:
    """The slash commands that the session's plugins provide, and the failures of plugins."""

    def __init__(self, plugins: SessionPlugins, emit: Callable[[Event], None]) -> None:
        self._plugins = plugins
        self._emit = emit

    async def commands(self) -> Sequence[PluginCommand]:
        """Return all commands, in the order of the plugins."""
        return self._plugins.commands()

    async def run(self, name: str, text: str, show: bool = True) -> str:
        """Run a command with the text after its name; return its output. `show` also makes it a notice."""
        said = await self._plugins.run_command(name, text)
        if show and said.strip():
            self._emit(Noticed(kind="info", text=said))
        return said

    async def run_called(self, text: str, *, show: bool = True) -> str | None:
        """Run the plugin command of a message such as `/name rest`; return its output.

        Returns None if the message does not begin with a plugin's command.
        """
        name, _, rest = text[1:].strip().partition(" ")
        if not text.startswith("/") or all(name != command.name for command in self._plugins.commands()):
            return None
        return await self.run(name, rest.strip(), show)

    async def failures(self) -> Sequence[PluginFailure]:
        """Return the last failure of each plugin that has failed."""
        return self._plugins.failures()
