"""The command that installs skills from other sources, on a screen."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from app.tui.commands.skill_market import HubMarket


def skill_market(workspace: Path) -> HubMarket:
    """Return the skill sources from the settings, for a screen. Touches the disk."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.knowledge.skills.hub.service import open_hub
    from app.tui.commands.skill_market import HubMarket

    home = Home.locate()
    loaded = load(home, dict(os.environ), workspace)
    return HubMarket(open_hub(home, loaded.settings, loaded.environ, workspace))


async def _install(app: AppContext, argument: str) -> None:
    from app.tui.screens.dialog import TextDialog
    from app.tui.screens.skill_offers import WHAT, SkillOffersScreen

    client = app.need_client()
    text = argument.strip() or await app.push_screen_wait(TextDialog(WHAT, enters="search"))
    if text is None:
        return
    market = await asyncio.to_thread(skill_market, client.workspace)
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
