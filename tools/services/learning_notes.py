"""Notes of what failed and what worked, as tools hand them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningNote:
    """What should be kept of a failure. `candidate` is the number of one that was read off the calls."""

    pattern: str = ""
    error_type: str = ""
    fix: str = ""
    context: str = ""
    tags: tuple[str, ...] = ()
    candidate: int | None = None
    everywhere: bool = False
    """Whether it holds in every project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningView:
    """What is known of a failure."""

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


class LearningKeeper(Protocol):
    """What failed and what worked. All methods raise `ToolError`."""

    async def save(self, note: LearningNote) -> LearningView:
        """Keep something, or make a candidate a learning; what is kept then."""
        ...

    async def search(self, query: str, limit: int) -> Sequence[LearningView]:
        """What is known in this project and everywhere, best first."""
        ...
