"""Results of a search over all messages and notes, as data for tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tools.services.service import Service


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """One stored message, as shown in search results."""

    id: int
    role: str
    time: float
    """Seconds since the epoch."""
    text: str
    is_match: bool = False


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session with a hit: the snippet, and the messages around it."""

    session: str
    title: str
    started: float
    match: int
    snippet: str
    messages: tuple[FoundMessage, ...]
    ways: tuple[str, ...] = ()
    """How it was found: `exact`, `words`, `some words`, `nearby`, `date`, `meaning`."""


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A hit that is not a message, such as a note of memory."""

    source: str
    title: str
    text: str
    time: float
    """Seconds since the epoch; 0: unknown."""
    ways: tuple[str, ...] = ()


class SessionSearch(Service, ABC):
    """Search over all stored messages and notes."""

    @abstractmethod
    async def search(
        self,
        query: str,
        *,
        roles: Sequence[str] = (),
        session: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 5,
        offset: int = 0,
        window: int = 3,
        mode: str = "auto",
    ) -> tuple[int, list[FoundSession | FoundNote]]:
        """Return the total number of hits (up to 500), and a page of hits, best first.

        There is one hit per session, unless `session` is given.

        Times are seconds since the epoch. `mode` is `auto`, `words` or `meaning`.
        """
