"""The command that shows the installed skills."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand
from app.tui.conversation import active_conversation

if TYPE_CHECKING:
    from app.tui.commands.slash_menu import SkillNamesPort


async def _skills(app: SkillNamesPort, argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.skills import DiskShelf, SkillsScreen

    client = app.need_client()
    shelf = DiskShelf(await asyncio.to_thread(Home.locate), client.workspace)
    name = await app.push_screen_wait(SkillsScreen(shelf, at=argument))
    await app.skills.look()
    if name is not None:
        active_conversation.prompt(app).set_text(f"/{name} ")


COMMAND = AppCommand(
    id="program.skills",
    group="Program",
    name="Skills",
    description="What skills there are: read, search, run, switch on and off, see what a scan finds.",
    action=_skills,
    slash="skills",
)
