"""Repositories anywhere, by git itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.knowledge.skills.hub.bundle import STRICT, Limits
from agent.knowledge.skills.hub.git import SECONDS, GitPlace, fetched
from agent.knowledge.skills.hub.source import FetchedSkill, SkillOffer
from agent.knowledge.skills.hub.trees import TreeSource


@dataclass(frozen=True, slots=True)
class GitSource:
    """The skills of one repository. Each question fetches one commit anew."""

    name: str
    place: GitPlace
    seconds: float = SECONDS

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Skills that match."""
        with self._tree("") as source:
            return source.search(query, limit)

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """One skill."""
        with self._tree(version) as source:
            return source.inspect(item or self.place.folder)

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """One skill at a commit, tag or branch."""
        with self._tree(version) as source:
            return source.fetch(item or self.place.folder, limits=limits)

    @contextmanager
    def _tree(self, version: str) -> Iterator[TreeSource]:
        with fetched(self.place, version, self.seconds) as tree:
            yield TreeSource(self.name, "git", self.place.url, tree, self.place.folder)
