"""Tavily: `POST /search`, key as a bearer token."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.net.door import Permit
from agent.integrations.web.search.service import HttpService, WebHit, hits, within

_MOST = 20


class Tavily(HttpService):
    """At most 20 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.ask("/search", permit, {"query": query, "max_results": min(limit, _MOST)})
        return hits(within(found, "results"), description="content", date="published_date")
