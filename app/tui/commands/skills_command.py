"""The command that shows the installed skills."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand
from app.tui.conversation import active_conversation

if TYPE_CHECKING:
    from agent.core.home import Home
    from agent.knowledge.skills.catalog import SkillSet
    from agent.knowledge.skills.scanner import SkillScan
    from agent.knowledge.skills.skill import Skill
    from app.tui.commands.slash_menu import SkillNamesPort


@dataclass(frozen=True, slots=True)
class DiskShelf:
    """The skills of a workspace on disk, and the setting that switches single ones off."""

    home: Home
    workspace: Path

    def load(self) -> SkillSet:
        from agent.core.config.loader import load
        from agent.integrations.plugins.shelf import skill_catalog

        settings = load(self.home, dict(os.environ), self.workspace).settings
        return skill_catalog(self.home, self.workspace, settings).load()

    def scan(self, skill: Skill) -> SkillScan:
        from agent.knowledge.skills.scanner import scan_folder

        return scan_folder(skill.folder, outside=False)

    def switch(self, name: str, on: bool) -> None:
        from agent.core.config.edit import set_setting
        from agent.core.config.loader import load

        disabled = load(self.home, dict(os.environ), self.workspace).settings.skills.disabled
        names = [each for each in disabled if each != name] + ([] if on else [name])
        set_setting(self.home, "skills.disabled", ",".join(names))


async def _skills(app: SkillNamesPort, argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.skills import SkillsScreen

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
