"""Parallel: `POST /v1beta/search`, key in `x-api-key`."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.net.door import Permit
from agent.integrations.web.search.service import HttpService, WebHit, hits, within

_EXCERPT = 500


class Parallel(HttpService):
    """At most 40 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        wanted = {
            "objective": query,
            "search_queries": [query],
            "max_results": min(limit, 40),
            "excerpts": {"max_chars_per_result": _EXCERPT},
        }
        found = await self.ask("/v1beta/search", permit, wanted)
        return hits(within(found, "results"), description="excerpts", date="publish_date")
