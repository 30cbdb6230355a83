"""The command that shows the MCP servers of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _servers(app: AppContext, _argument: str) -> None:
    from app.tui.screens.servers import ServersScreen

    await app.push_screen_wait(ServersScreen(app.need_client().servers))


COMMAND = AppCommand(
    id="program.servers",
    group="Program",
    name="MCP servers",
    description="Servers that bring tools: how they do, tools, log; restart, agree to what changed.",
    action=_servers,
    slash="mcp",
)
