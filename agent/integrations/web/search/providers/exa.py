"""Exa: `POST /search`, key in `x-api-key`."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.net.door import Permit
from agent.integrations.web.search.service import HttpService, WebHit, hits, within


class Exa(HttpService):
    """At most 100 results, with the passages that fit best."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        wanted = {"query": query, "numResults": limit, "contents": {"highlights": True}}
        found = await self.ask("/search", permit, wanted)
        return hits(within(found, "results"), description="highlights", date="publishedDate")
