"""The plugins of an engine: found, what they bring known; nothing of them is started yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.events import Event, Noticed
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
    """The plugins of a workspace that are on. Never raises for what is wrong with a plugin."""

    def found() -> SessionPlugins:
        from agent.integrations.plugins.enabling import PluginEnvironment
        from agent.integrations.plugins.session_plugins import found_plugins

        around = PluginEnvironment.of(home, workspace, loaded.environ, loaded.settings.sandbox.mode, secrets)
        return found_plugins(around, lambda text: emit(Noticed(kind="warning", text=text)))

    return await asyncio.to_thread(found)
