"""Access to the web for tools. Results are data for the model, with outside text marked as such."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.services.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlOrder:
    """The description of a crawl."""

    url: str
    depth: int = 2
    """The number of links that may be followed in a row."""
    limit: int = 50
    """The maximum number of pages."""
    include: tuple[str, ...] = ()
    """Patterns of paths, with `*`; a page must match one. Empty: all do."""
    exclude: tuple[str, ...] = ()
    """Patterns of excluded paths."""


class WebReader(Service, ABC):
    """The service with which tools search and read the web. All methods raise `ToolError`."""

    absent = "The web cannot be read from here."

    @abstractmethod
    async def search(self, query: str, limit: int) -> Mapping[str, Any]:
        """Return the results of the first service that has any."""

    @abstractmethod
    async def extract(self, urls: Sequence[str], query: str, char_limit: int) -> Mapping[str, Any]:
        """Return pages as text, in order; a page that cannot be fetched has an `error` instead."""

    @abstractmethod
    async def crawl(self, order: CrawlOrder) -> Mapping[str, Any]:
        """Save pages of a site to disk, with an index; return where they are."""
