"""The command that shows the installed plugins."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _plugins(app: AppContext, _argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.plugins import DiskPlugins, PluginsScreen

    home = await asyncio.to_thread(Home.locate)
    client = app.need_client()
    failures = {each.plugin: each for each in await client.plugins.failures()}
    await app.push_screen_wait(PluginsScreen(DiskPlugins(home, client.workspace, failures)))


COMMAND = AppCommand(
    id="program.plugins",
    group="Program",
    name="Plugins",
    description="What plugins there are: what they bring and may do, enable and disable them.",
    action=_plugins,
    slash="plugins",
)
