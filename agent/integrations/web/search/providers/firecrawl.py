"""Firecrawl: `POST /v2/search`, key as a bearer token."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.net.door import Permit
from agent.integrations.web.search.service import HttpService, SearchError, WebHit, hits, within


class Firecrawl(HttpService):
    """At most 100 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.ask("/v2/search", permit, {"query": query, "limit": limit, "sources": ["web"]})
        if within(found, "success") is False:
            raise SearchError("failed")
        return hits(within(found, "data", "web"), description="description", date="date")
