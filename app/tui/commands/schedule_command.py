"""The command that shows scheduled jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _schedule(app: AppContext, _argument: str) -> None:
    from agent.automation.schedule.book import JobBook, JobNeeds
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.home import Home
    from agent.core.store.store import Store
    from app.tui.conversation.background_watch import RunStarter
    from app.tui.screens.schedule import ScheduleScreen

    home = Home.locate()
    secrets = await asyncio.to_thread(secrets_of_home)
    # A separate connection, as the engine may run in another process.
    async with await Store.open(home.database, secrets=secrets) as store:
        book = JobBook(store.database, home.schedule, needs=JobNeeds(home))
        await app.push_screen_wait(ScheduleScreen(book, RunStarter().begin))


COMMAND = AppCommand(
    id="program.schedule",
    group="Program",
    name="Schedule",
    description="Jobs on time: next and last runs, what they took, run now, pause, delete.",
    action=_schedule,
    slash="schedule",
)
