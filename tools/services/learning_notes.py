"""Notes on what failed and what worked, as the tools exchange them with the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tools.services.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningNote:
    """A note about a failure. `candidate` is the number of the observed learning that it confirms, if any."""

    pattern: str = ""
    error_type: str = ""
    fix: str = ""
    context: str = ""
    tags: tuple[str, ...] = ()
    candidate: int | None = None
    everywhere: bool = False
    """Whether it applies to every project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningView:
    """A stored learning, as the tools return it."""

    id: int
    status: str
    pattern: str
    error_type: str
    fix: str
    context: str
    tags: tuple[str, ...]
    everywhere: bool
    created_at: float
    """Seconds since the epoch."""
    times_used: int
    confirmed: int
    refuted: int


class LearningKeeper(Service, ABC):
    """The store of what failed and what worked. All methods raise `ToolError`."""

    absent = "Nothing is learned here: learnings are switched off (learnings.enabled)."

    @abstractmethod
    async def save(self, note: LearningNote) -> LearningView:
        """Store a note, or promote a candidate; return the stored learning."""

    @abstractmethod
    async def search(self, query: str, limit: int) -> Sequence[LearningView]:
        """Return learnings of this project and general ones, best first."""
