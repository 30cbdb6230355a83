"""The command that shows notes remembered between sessions."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _memory(app: AppContext, argument: str) -> None:
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.session.conversation.session_prompt import memory_files
    from agent.session.wiring.plugin_memory import kept_elsewhere
    from app.tui.conversation.open_search_hit import show_place
    from app.tui.screens.memory import MemoryScreen

    client = app.need_client()
    home = Home.locate()
    settings = await asyncio.to_thread(lambda: load(home, dict(os.environ), client.workspace).settings)
    if keeper := await asyncio.to_thread(kept_elsewhere, home, client.workspace, settings):
        app.say(f"The plugin service {keeper} keeps the notes of sessions here; these files are not used.")
    source = await app.push_screen_wait(
        MemoryScreen(memory_files(home, client.workspace, settings), at=argument)
    )
    if source is not None:
        await show_place(app, source.session, source.node)


COMMAND = AppCommand(
    id="program.memory",
    group="Program",
    name="Memory",
    description="What is remembered between sessions: read, search, add, edit, delete.",
    action=_memory,
    slash="memory",
)
