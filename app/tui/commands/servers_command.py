"""The command that shows the MCP servers of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _servers(app: AppContext, argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.servers import ServerFile, ServersScreen

    client = app.need_client()
    file = ServerFile(Home.locate(), client.workspace)
    await app.push_screen_wait(ServersScreen(client.servers, file, argument))


COMMAND = AppCommand(
    id="program.servers",
    group="Program",
    name="MCP servers",
    description="Servers that bring tools: add and delete, tools, log; restart, agree to what changed.",
    action=_servers,
    slash="mcp",
    argument_hint="[server | add]",
)
