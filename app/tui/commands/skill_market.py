"""Skills of other sources, for the screen that installs them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.bundle import SkillOffer
    from agent.knowledge.skills.hub.opening import Candidate, SkillReference
    from agent.knowledge.skills.hub.service import SearchResult, SkillHub


class HubMarket:
    """The skill sources from the settings."""

    def __init__(self, hub: SkillHub) -> None:
        self._hub = hub
        self._known: dict[SkillOffer, SkillReference] = {}

    def find(self, text: str) -> SearchResult:
        """Return the one skill that an identifier names, or the results of a search for the words."""
        found, self._known = self._hub.find(text)
        return found

    def candidate(self, offer: SkillOffer) -> AbstractContextManager[Candidate]:
        """Return a context manager that holds a skill in quarantine."""
        return self._hub.examine(self._known[offer])

    def install(self, candidate: Candidate) -> None:
        """Install a skill into the home."""
        self._hub.installed.install(candidate)
