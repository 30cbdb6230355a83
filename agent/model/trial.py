"""A request on its way through refusals: what was repaired so far, and how it is made in another form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.model.dialect import Dialect
from agent.model.repairs import Repair

MOST_SENDINGS = 6
"""How often one request leaves in all, when it is refused for its form."""


@dataclass(slots=True)
class RequestTrial:
    """Goes with a request (`ModelRequest.trial`). Without one, only fields of the body can be repaired."""

    rebuild: Callable[[Any, Dialect], Awaitable[Any]] | None = None
    """Makes a `ModelRequest` again for another dialect: frames, tools, system prompt."""
    images: Callable[[], Sequence[str]] = tuple
    """SHA-256 of the images of the conversation, in their order."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """Each tool on offer with the digest of its schema."""
    dialect: Dialect | None = None
    """What the last sending was made for, where that is not the known one."""
    learned: list[tuple[Repair, str]] = field(default_factory=list)
    """The repairs so far, each with what the provider said."""
    tried: set[str] = field(default_factory=set)
    sendings: int = 0
    """Sendings that were refused."""

    def take(self, repair: Repair, reason: str, dialect: Dialect) -> None:
        """The next sending is repaired so."""
        self.tried.add(repair.key)
        self.learned.append((repair, reason))
        self.dialect = dialect
