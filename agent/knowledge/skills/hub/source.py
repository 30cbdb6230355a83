"""The protocol of a source of skills, and what it hands over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from agent.knowledge.skills.hub.bundle import STRICT, Limits, SkillFile

SourceKind = Literal["github", "git", "folder", "well-known", "marketplace", "clawhub", "lobehub"]


@dataclass(frozen=True, slots=True)
class SkillOffer:
    """A skill that a source has. All texts come from outside."""

    source: str
    """The name of the source, or its kind if it has none in the settings."""
    kind: SourceKind
    item: str
    """How the source calls the skill."""
    name: str
    description: str = ""
    version: str = ""
    """A commit, a version or a digest: what identifies the content; empty if the source does not say."""
    address: str = ""
    """Where the source is: an address or a folder."""
    origin: str = ""
    """What trust is decided by, such as `openai/skills/pdf` on GitHub; empty for a source of no standing."""
    notes: tuple[str, ...] = ()
    """What a person should know before a yes."""


@dataclass(frozen=True, slots=True)
class FetchedSkill:
    """The files of a skill as they were delivered, within limits and with safe paths."""

    offer: SkillOffer
    files: tuple[SkillFile, ...]
    notes: tuple[str, ...] = field(default=())


class SkillSource(Protocol):
    """One place that skills come from. Every method may touch network or disk, and raises `HubError`."""

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Skills that match, best first; an empty query lists all."""
        ...

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """What the source says of one skill, without fetching it."""
        ...

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """The files of one skill."""
        ...


def matches(query: str, *texts: str) -> int:
    """How well texts match a query: 0 not at all; the first text, a name, weighs most."""
    words = query.casefold().split()
    if not words:
        return 1
    name, rest = texts[0].casefold(), " ".join(texts[1:]).casefold()
    if not all(word in name or word in rest for word in words):
        return 0
    if name == query.casefold().strip():
        return 4
    return 3 if all(word in name for word in words) else 2
