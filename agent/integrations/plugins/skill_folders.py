"""The skills of plugins that are on, as folders for the catalog of skills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.core.home import Home
from agent.integrations.plugins.shelf import ShelvedPlugin, find_agreed


def skill_folders(shelved: Sequence[ShelvedPlugin]) -> tuple[Path, ...]:
    """A folder for each skill of the plugins that are on. Pure."""
    found: dict[Path, None] = {}
    for each in shelved:
        if each.plugin is None or each.consent is None or not each.is_on:
            continue
        found |= dict.fromkeys(skill.folder for skill in each.plugin.skills)
        found |= dict.fromkeys(each.plugin.root / path for path in each.consent.registered.skills)
    return tuple(found)


def plugin_skills(home: Home, workspace: Path) -> tuple[Path, ...]:
    """The same for a workspace. Reads the disk."""
    return skill_folders(find_agreed(home, workspace))
