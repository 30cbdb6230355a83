"""The search services that settings and keys make usable, in order of preference, and those that need a
key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from agent.core.net.door import Permit, WebClient
from agent.integrations.web.search.service import (
    HttpService,
    SearchError,
    SearchService,
    WebHit,
    hits,
    within,
)

if TYPE_CHECKING:
    from agent.core.config.sections import WebSettings


class Brave(HttpService):
    """Brave Search: `GET /res/v1/web/search`, key in `X-Subscription-Token`. At most 20 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        asked = urlencode({"q": query, "count": min(limit, 20), "text_decorations": "false"})
        found = await self.ask(f"/res/v1/web/search?{asked}", permit)
        results = hits(within(found, "web", "results"), description="description", date="page_age")
        return [replace(each, description=re.sub(r"</?strong>", "", each.description)) for each in results]


class Exa(HttpService):
    """Exa: `POST /search`, key in `x-api-key`. At most 100 results, with the passages that fit best."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        wanted = {"query": query, "numResults": limit, "contents": {"highlights": True}}
        found = await self.ask("/search", permit, wanted)
        return hits(within(found, "results"), description="highlights", date="publishedDate")


class Firecrawl(HttpService):
    """Firecrawl: `POST /v2/search`, key as a bearer token. At most 100 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.ask("/v2/search", permit, {"query": query, "limit": limit, "sources": ["web"]})
        if within(found, "success") is False:
            raise SearchError("failed")
        return hits(within(found, "data", "web"), description="description", date="date")


class Parallel(HttpService):
    """Parallel: `POST /v1beta/search`, key in `x-api-key`. At most 40 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        wanted = {
            "objective": query,
            "search_queries": [query],
            "max_results": min(limit, 40),
            "excerpts": {"max_chars_per_result": 500},
        }
        found = await self.ask("/v1beta/search", permit, wanted)
        return hits(within(found, "results"), description="excerpts", date="publish_date")


class Tavily(HttpService):
    """Tavily: `POST /search`, key as a bearer token. At most 20 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.ask("/search", permit, {"query": query, "max_results": min(limit, 20)})
        return hits(within(found, "results"), description="content", date="published_date")


class Searxng(HttpService):
    """SearXNG on the user's own server (`web.searxng.url`): `GET /search?format=json`."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.ask(f"/search?{urlencode({'q': query, 'format': 'json'})}", permit)
        return hits(within(found, "results"), description="content", date="publishedDate")[:limit]


_KEYED = {
    "brave": (Brave, "https://api.search.brave.com", "BRAVE_API_KEY", "X-Subscription-Token", ""),
    "tavily": (Tavily, "https://api.tavily.com", "TAVILY_API_KEY", "Authorization", "Bearer "),
    "exa": (Exa, "https://api.exa.ai", "EXA_API_KEY", "x-api-key", ""),
    "firecrawl": (Firecrawl, "https://api.firecrawl.dev", "FIRECRAWL_API_KEY", "Authorization", "Bearer "),
    "parallel": (Parallel, "https://api.parallel.ai", "PARALLEL_API_KEY", "x-api-key", ""),
}
"""Class, URL, environment variable of the key, header, and the text before the key in it."""
PUBLIC = "public"
KEYS = {name: kind[2] for name, kind in _KEYED.items()}
"""The environment variable with the key of each service that needs one."""


def known_services() -> list[str]:
    """Return the names of all services, usable or not."""
    from agent.integrations.web.search.providers.public_mcp import endpoints

    return ["searxng", "ddgs", PUBLIC, *_KEYED, *endpoints()]


def search_services(
    settings: WebSettings, client: WebClient, variables: Mapping[str, str]
) -> list[SearchService]:
    """Return the services that can be used now. Unknown names in the settings are ignored."""
    found: list[SearchService] = []
    for name in dict.fromkeys(settings.search.providers):
        found += _services(name, settings, client, variables)
    return found


def _services(
    name: str, settings: WebSettings, client: WebClient, variables: Mapping[str, str]
) -> list[SearchService]:
    named = settings.addresses.get(name, "")
    seconds = settings.search.timeout
    if name == "searxng":
        base = settings.searxng.url or named
        return [Searxng(name=name, address=base, client=client, headers={}, own=base)] if base else []
    if name == "ddgs":
        from agent.integrations.web.search.providers.ddgs import Ddgs

        return [Ddgs(client, seconds)]
    if name in _KEYED:
        kind, address, variable, header, before = _KEYED[name]
        if not (key := variables.get(variable, "").strip()):
            return []
        headers = {header: f"{before}{key}"}
        return [kind(name=name, address=named or address, client=client, headers=headers, own=named)]
    from agent.integrations.web.search.providers.public_mcp import PublicEndpoint, endpoints

    return [
        PublicEndpoint(
            each,
            settings.addresses.get(each) or data["address"],
            data["tool"],
            data["arguments"],
            client,
            own=each in settings.addresses,
            seconds=seconds,
        )
        for each, data in endpoints().items()
        if name in (PUBLIC, each)
    ]
