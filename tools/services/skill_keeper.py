"""The skills of a session, as tools see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

SkillAct = Literal["create", "patch", "edit", "delete", "write_file", "remove_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """What should be done to a skill of the person's own."""

    act: SkillAct
    name: str
    content: str = ""
    """The whole SKILL.md, for `create` and `edit`; the whole file, for `write_file`."""
    category: str = ""
    """The folder a new skill is filed under."""
    file: str = ""
    """A file of the skill, as a path below its folder; empty for SKILL.md."""
    old: str = ""
    """What `patch` looks for."""
    new: str = ""
    everywhere: bool = False
    """Whether `patch` replaces every place it finds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDraft:
    """A change that is worked out and not done yet."""

    change: SkillChange
    folder: str
    """The folder of the skill, as a person writes it."""
    diff: str
    """A unified diff of all files."""
    added: int
    """Lines."""
    removed: int
    danger: tuple[str, ...] = ()
    """What in the skill reads like an attack, were this done; a person must agree to it separately."""
    findings: tuple[str, ...] = ()
    """What else a scan has to say."""
    plan: Any = None
    """What the keeper needs to do it."""


class SkillKeeper(Protocol):
    """The skills that can be used. All methods raise `ToolError`."""

    async def list(self, category: str) -> Mapping[str, Any]:
        """Names and descriptions, of one category or of all."""
        ...

    async def view(self, name: str, file: str) -> Mapping[str, Any]:
        """The instructions of a skill, or one of its files. What it allows is in force from then on."""
        ...

    async def draft(self, change: SkillChange) -> SkillDraft:
        """Work a change out: checked against the format, scanned, compared. Nothing is written."""
        ...

    async def carry_out(self, draft: SkillDraft) -> Mapping[str, Any]:
        """Do what was worked out, provided that nothing changed meanwhile."""
        ...
