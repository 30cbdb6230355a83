"""The service through which tools read and change the skills of a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tools.services.service import Service

SkillAct = Literal["create", "patch", "edit", "delete", "write_file", "remove_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """A change to one of the user's skills."""

    act: SkillAct
    name: str
    content: str = ""
    """The whole SKILL.md, for `create` and `edit`; the whole file, for `write_file`."""
    category: str = ""
    """The folder a new skill is filed under."""
    file: str = ""
    """A file of the skill, as a path below its folder; empty for SKILL.md."""
    old: str = ""
    """The text searched by `patch`."""
    new: str = ""
    everywhere: bool = False
    """Whether `patch` replaces every match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDraft:
    """A prepared change that has not been written."""

    change: SkillChange
    folder: str
    """The folder of the skill, as the user writes it."""
    diff: str
    """A unified diff of all files."""
    added: int
    """The number of added lines."""
    removed: int
    danger: tuple[str, ...] = ()
    """Findings that look like an attack in the skill; the user must approve them separately."""
    findings: tuple[str, ...] = ()
    """Further findings of the scan."""
    plan: Any = None
    """The keeper's data for the change."""


class SkillKeeper(Service, ABC):
    """The usable skills. All methods raise `ToolError`."""

    absent = "Skills are switched off here; see the setting skills.enabled."

    @abstractmethod
    async def list(self, category: str) -> Mapping[str, Any]:
        """Return names and descriptions of the skills of one category, or of all if it is empty."""

    @abstractmethod
    async def view(self, name: str, file: str) -> Mapping[str, Any]:
        """Return a skill's instructions, or one of its files. The skill's restrictions apply from then on."""

    @abstractmethod
    async def draft(self, change: SkillChange) -> SkillDraft:
        """Check the format of a change, scan it, and compare it with the current skill. Writes nothing."""

    @abstractmethod
    async def carry_out(self, draft: SkillDraft) -> Mapping[str, Any]:
        """Write a prepared change; refuse if the skill has changed in the meantime."""
