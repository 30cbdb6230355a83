"""SearXNG, a server of the person's own: `GET /search?format=json`."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from agent.core.net.door import Permit
from agent.integrations.web.search.service import HttpService, WebHit, hits, within


class Searxng(HttpService):
    """Asks the server that `web.searxng.url` names."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.ask(f"/search?{urlencode({'q': query, 'format': 'json'})}", permit)
        return hits(within(found, "results"), description="content", date="publishedDate")[:limit]
