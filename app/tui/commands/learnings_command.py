"""The command that shows learnings: what failed and what worked."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _learnings(app: AppContext, argument: str) -> None:
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.core.store.store import Store
    from agent.knowledge.learnings.store import learning_book
    from app.tui.conversation.open_search_hit import show_place
    from app.tui.screens.learnings import LearningsScreen

    workspace = app.need_client().workspace
    home = Home.locate()
    secrets = await asyncio.to_thread(secrets_of_home)
    settings = await asyncio.to_thread(lambda: load(home, dict(os.environ), workspace).settings)
    # A separate connection, as the engine may run in another process.
    async with await Store.open(home.database, secrets=secrets) as store:
        book = await asyncio.to_thread(learning_book, store.database, workspace, settings.learnings, secrets)
        source = await app.push_screen_wait(LearningsScreen(book, at=argument))
    if source is not None:
        await show_place(app, source.session, source.node)


COMMAND = AppCommand(
    id="program.learnings",
    group="Program",
    name="Learnings",
    description="What failed and what worked: read, search, add, reword, confirm, delete.",
    action=_learnings,
    slash="learnings",
)
