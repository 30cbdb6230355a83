"""Web services that all calls of a session share: `WebClient`, reading process, search, and folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.core.config.known_secrets import known_secrets
from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.net.door import WebClient, WebLimits
from agent.core.net.page_cache import PageCache
from agent.integrations.web.reading.passages import DocumentReader
from agent.safety.permissions.policy import Permissions
from tools.services.actions import Action, Fetch

if TYPE_CHECKING:
    from agent.core.config.sections import WebSettings
    from agent.core.net.exchange import Network
    from agent.integrations.web.search.service import SearchRing, SearchService


@dataclass(slots=True)
class WebServices:
    """The web services of one session: opened once, used by every call, closed with the session."""

    client: WebClient
    reader: DocumentReader
    folder: Path
    """The folder for web pages that are cached and crawled."""
    settings: WebSettings
    variables: Mapping[str, str]
    brought: Sequence[SearchService] = ()
    """Search services of plugins, which are queried before those of the settings."""
    _ring: SearchRing | None = field(default=None, repr=False)

    @property
    def ring(self) -> SearchRing:
        """The search services in order of preference, created on first use."""
        if self._ring is None:
            from agent.integrations.web.search.service import SearchRing
            from agent.integrations.web.search.services import search_services

            own = search_services(self.settings, self.client, self.variables)
            self._ring = SearchRing([*self.brought, *own])
        return self._ring

    async def close(self) -> None:
        """Stop the reading process and the search services."""
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
    """Create the web services of one session without starting anything.

    `network` looks up names and opens connections; None means the real network.
    """
    limits = WebLimits(
        size=int(settings.page_mb * 1_000_000),
        unpacked=int(settings.unpacked_mb * 1_000_000),
        seconds=settings.timeout,
        redirects=settings.redirects,
    )
    folder = home.root / "web"
    cache = PageCache(folder / "cache", int(settings.cache_mb * 1_000_000)) if settings.cache_mb else None
    client = WebClient(secrets=secrets, network=network, environ=environ, limits=limits, cache=cache)
    return WebServices(client, DocumentReader(), folder, settings, variables, brought)


Ask = Callable[[Action], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGate:
    """The permission check as seen by one tool call. `ask` and `agreed` raise `DeniedError`."""

    tool: str
    ask: Ask
    """A check that asks the user if the rules require it."""
    agreed: Ask
    """A check of an action that was approved as part of another one: only denied actions are refused."""
    opens: Callable[[Fetch], bool]
    """Whether the user's own rules allow an address that is otherwise always blocked."""

    def is_opened(self, url: str) -> bool:
        return self.opens(Fetch(tool=self.tool, url=url))

    async def first(self, url: str, source: str) -> None:
        """Check a page that the model requests. Redirects within its site are approved along with it."""
        if source and same_site(url, source):
            await self.agreed(Fetch(tool=self.tool, url=url))
        else:
            await self.ask(Fetch(tool=self.tool, url=url))

    async def further(self, url: str, source: str) -> None:
        """Check a page that belongs to something that was approved as a whole."""
        if source and not same_site(url, source):
            await self.ask(Fetch(tool=self.tool, url=url))
        else:
            await self.agreed(Fetch(tool=self.tool, url=url))


def same_site(one: str, other: str) -> bool:
    """Return whether `one` has the same host and port as `other`, ignoring `www.`.

    A change from http to https counts as the same site, but not the reverse.
    """
    here, there = urlsplit(one), urlsplit(other)
    if here.scheme != there.scheme and (here.scheme, there.scheme) != ("https", "http"):
        return False
    if (here.port or None) != (there.port or None):
        return False
    return (here.hostname or "").removeprefix("www.") == (there.hostname or "").removeprefix("www.")


@dataclass(frozen=True, slots=True)
class UserWeb:
    """The web services and permissions of a subcommand that the user runs."""

    services: WebServices
    permissions: Permissions

    def gate(self, tool: str) -> CallGate:
        """Return a check that never asks. The user's own rules still allow otherwise blocked addresses."""
        return CallGate(tool=tool, ask=_yes, agreed=_yes, opens=self._opens)

    def _opens(self, action: Fetch) -> bool:
        return self.permissions.current().opens(action)


async def _yes(_action: Action) -> None:
    return None


@asynccontextmanager
async def user_web(home: Home, folder: Path) -> AsyncIterator[UserWeb]:
    """Open the web services with `home`'s settings and rules for `folder`. Raises `HermesError`."""
    environ = dict(os.environ)
    loaded = load(home, environ, folder)
    web = open_web(
        home,
        loaded.settings.web,
        environ=environ,
        variables=loaded.environ,
        secrets=known_secrets(loaded.environ),
    )
    try:
        yield UserWeb(web, Permissions(home, folder, "oneshot"))
    finally:
        await web.close()
