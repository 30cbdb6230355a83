"""The command that installs skills from other sources, on a screen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _install(app: AppContext, argument: str) -> None:
    from app.tui.screens.dialog import TextDialog
    from app.tui.screens.skill_offers import WHAT, SkillOffersScreen, market_of

    client = app.need_client()
    text = argument.strip() or await app.push_screen_wait(TextDialog(WHAT, enters="search"))
    if text is None:
        return
    market = await asyncio.to_thread(market_of, client.workspace)
    await app.push_screen_wait(SkillOffersScreen(market, text))


COMMAND = AppCommand(
    id="program.install_skill",
    group="Program",
    name="Install a skill",
    description="Search skills in the sources of the settings, see files and findings, install after a yes.",
    action=_install,
    slash="install-skill",
    argument_hint="[words, or owner/repository/folder]",
)
