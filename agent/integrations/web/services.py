"""Services that all calls of a session share to read the web: door, reading process, search, folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.net.door import Door, DoorLimits
from agent.core.net.page_cache import PageCache
from agent.integrations.web.reading.reader import DocumentReader

if TYPE_CHECKING:
    from agent.core.config.sections import WebSettings
    from agent.core.home import Home
    from agent.core.net.exchange import Network
    from agent.integrations.web.search.ring import SearchRing
    from agent.integrations.web.search.service import SearchService


@dataclass(slots=True)
class WebServices:
    """Opened once, used by every call, closed with the session."""

    door: Door
    reader: DocumentReader
    folder: Path
    """Where crawls are kept."""
    settings: WebSettings
    variables: Mapping[str, str]
    brought: Sequence[SearchService] = ()
    """Search services of plugins, which are asked before those of the settings."""
    _ring: SearchRing | None = field(default=None, repr=False)

    @property
    def ring(self) -> SearchRing:
        """The services that search, in order."""
        if self._ring is None:
            from agent.integrations.web.search.ring import SearchRing
            from agent.integrations.web.search.services import search_services

            own = search_services(self.settings, self.door, self.variables)
            self._ring = SearchRing([*self.brought, *own])
        return self._ring

    async def close(self) -> None:
        """End what runs."""
        await self.reader.close()
        if self._ring is not None:
            await self._ring.close()


def open_web(
    home: Home,
    settings: WebSettings,
    *,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
    secrets: Mapping[str, str],
    network: Network | None = None,
    brought: Sequence[SearchService] = (),
) -> WebServices:
    """The web for one session. Starts nothing yet. `network` is the port for names and connections."""
    limits = DoorLimits(
        size=int(settings.page_mb * 1_000_000),
        unpacked=int(settings.unpacked_mb * 1_000_000),
        seconds=settings.timeout,
        redirects=settings.redirects,
    )
    folder = home.root / "web"
    cache = PageCache(folder / "cache", int(settings.cache_mb * 1_000_000)) if settings.cache_mb else None
    door = Door(secrets=secrets, network=network, environ=environ, limits=limits, cache=cache)
    return WebServices(door, DocumentReader(), folder, settings, variables, brought)
