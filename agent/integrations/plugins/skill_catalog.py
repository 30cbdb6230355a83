"""The catalog of skills with those of plugins, each as long as it is what was agreed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.integrations.plugins.consent import ConsentFile
from agent.integrations.plugins.files import hashes, walk
from agent.integrations.plugins.problem import PluginError
from agent.integrations.plugins.skill_folders import plugin_skills
from agent.knowledge.skills import catalog
from agent.knowledge.skills.catalog import SkillCatalog
from agent.knowledge.skills.skill import Skill

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


def skill_catalog(
    home: Home, workspace: Path, settings: Settings, folders: Sequence[Path] | None = None
) -> SkillCatalog:
    """The skills of a workspace. `folders` are those of plugins; None: they are looked up on the disk."""
    found = plugin_skills(home, workspace) if folders is None else tuple(folders)
    plain = catalog.skill_catalog(home, workspace, settings)
    if not found:
        return plain
    return replace(plain, plugins=found, doubts=(*plain.doubts, PluginSkillDoubts(home).doubt))


def catalog_for(
    home: Home, workspace: Path, settings: Settings, folders: Sequence[Path] | None = None
) -> SkillCatalog | None:
    """The skills of a session; None where they are switched off."""
    return skill_catalog(home, workspace, settings, folders) if settings.skills.enabled else None


class PluginSkillDoubts:
    """Asked about every skill that would be in force; remembers what it hashed until a file changes."""

    def __init__(self, home: Home) -> None:
        self._consents = ConsentFile(home.plugin_consent)
        self._known: dict[Path, tuple[object, dict[str, str]]] = {}

    def doubt(self, skill: Skill) -> str:
        """Why a skill of a plugin must not be used, in half a sentence; empty if it may. Touches the disk."""
        if skill.scope != "plugin":
            return ""
        for folder, consent in self._consents.read().items():
            if not skill.folder.is_relative_to(folder):
                continue
            begin = skill.folder.relative_to(folder).as_posix() + "/"
            agreed = {name: each for name, each in consent.files.items() if name.startswith(begin)}
            try:
                if self._hashes(Path(folder), skill.folder) == agreed:
                    return ""
            except (PluginError, OSError):
                continue
        return "its files changed since you agreed to the plugin; see `hermes plugin list`"

    def _hashes(self, root: Path, folder: Path) -> dict[str, str]:
        stamp = tuple(
            (path, (status := path.lstat()).st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            for path in walk(folder)
        )
        known = self._known.get(folder)
        if known is None or known[0] != stamp:
            known = self._known[folder] = (stamp, hashes(root, folder))
        return known[1]
