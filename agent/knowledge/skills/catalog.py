"""The skills of one workspace: which are in force, which are not and why.

`SkillCatalog` is what the rest of the program asks. It reads the disk each time, and
what did not change is not read again, so nothing has to be told to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.knowledge.skills.discover import BUNDLED, SkillIndex, SkillOff, SkillRoot, SkillSet, roots
from agent.knowledge.skills.hub.approval import SkillApprovals
from agent.knowledge.skills.originals import SkillOriginals
from agent.knowledge.skills.project import read_project_skills, state_of
from agent.knowledge.skills.skill import Skill, for_platform

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

_INDEX = SkillIndex()
"""What was read once in this process is not read again while it stays as it is."""

Doubt = Callable[[Skill], str]
"""Why a skill must not be used, in half a sentence; empty if it may."""

NOT_TRUSTED = "This project brings skills, which are not used; see `hermes config trust`."


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCatalog:
    """Where skills are looked for, and what keeps some from being used."""

    home: Home
    workspace: Path
    user: Path
    """The home folder of the person."""
    bundled: Path = BUNDLED
    further: Sequence[Path] = ()
    """Folders that the person named in the settings."""
    plugins: Sequence[Path] = ()
    """Folders of skills that plugins bring, one each."""
    disabled: frozenset[str] = frozenset()
    """Names of skills that the person switched off."""
    doubts: Sequence[Doubt] = ()
    """Each is asked about every skill that would be in force."""
    index: SkillIndex = field(default_factory=lambda: _INDEX)

    def places(self) -> tuple[tuple[SkillRoot, ...], tuple[str, ...]]:
        """Folders that are looked into, nearest first, and what a person should hear of it."""
        project = read_project_skills(self.home, self.workspace)
        state = state_of(self.home, project)
        notes: tuple[str, ...] = ()
        if project is not None and state != "trusted":
            notes = (f"{project.problem} They are not used." if project.problem else NOT_TRUSTED,)
        root = project.root if project is not None and state == "trusted" else None
        found = roots(
            self.home.root, self.user, root, self.bundled, further=self.further, plugins=self.plugins
        )
        return found, notes

    def load(self) -> SkillSet:
        """All skills as they are now. Touches the disk."""
        places, notes = self.places()
        found = SkillOriginals(self.home).settled(self.index.find(places))
        off = {each.name: reason for each in found.skills if (reason := self._why_not(each))}
        return replace(
            found,
            skills=tuple(each for each in found.skills if each.name not in off),
            off=tuple(SkillOff(each, off[each.name]) for each in found.skills if each.name in off),
            notes=notes,
        )

    def _why_not(self, skill: Skill) -> str:
        if skill.name in self.disabled:
            return "it is switched off in the settings"
        if not for_platform(skill):
            return f"it is for {', '.join(skill.platforms)}"
        return next((reason for doubt in self.doubts if (reason := doubt(skill))), "")


def skill_catalog(home: Home, workspace: Path, settings: Settings) -> SkillCatalog:
    """The skills of a workspace, as the settings have them; those of plugins are added by others."""
    try:
        user = Path.home()
    except RuntimeError:  # nobody knows where the person's home is
        user = home.root
    return SkillCatalog(
        home=home,
        workspace=workspace,
        user=user,
        further=tuple(Path(each).expanduser() for each in settings.skills.folders if each.strip()),
        disabled=frozenset(settings.skills.disabled),
        doubts=(SkillApprovals(home).doubt,),
    )


def missing_variables(skill: Skill, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Environment variables that a skill needs and that are not set."""
    return tuple(name for name in skill.required_variables if not environ.get(name))
