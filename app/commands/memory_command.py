"""Looking at what is remembered between sessions."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Protocol

from app.commands.command_kind import AppCommand

if TYPE_CHECKING:
    from app.conversation.open_search_hit import SearchHitPorts
    from app.ports import DialogPort

    class MemoryPorts(DialogPort, SearchHitPorts, Protocol):
        """What the memory screen asks of the application."""


async def _memory(app: MemoryPorts, _argument: str) -> None:
    from agent.api.config import load
    from agent.api.home import Home
    from agent.api.memory import memory_files
    from agent.api.search import parse
    from app.conversation.open_search_hit import show_search_hit
    from app.conversation.session_host import SessionRequest
    from app.screens.memory import MemoryScreen
    from app.screens.sessions.search import ChosenHit

    client = app.need_client()
    home = Home.locate()
    settings = await asyncio.to_thread(lambda: load(home, dict(os.environ), client.workspace).settings)
    source = await app.push_screen_wait(MemoryScreen(memory_files(home, client.workspace, settings)))
    if source is None:
        return
    if source.node is None:
        await app.open_session(SessionRequest(resume=source.session))
    else:
        await show_search_hit(app, ChosenHit(source.session, source.node, parse("")))


COMMAND = AppCommand(
    id="program.memory",
    group="Program",
    name="Memory",
    description="What is remembered between sessions: read, search, add, edit, delete.",
    action=_memory,
    slash="memory",
)
