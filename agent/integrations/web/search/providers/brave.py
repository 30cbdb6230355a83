"""Brave Search: `GET /res/v1/web/search`, key in `X-Subscription-Token`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlencode

from agent.core.net.door import Permit
from agent.integrations.web.search.service import HttpService, WebHit, hits, within

_MOST = 20


class Brave(HttpService):
    """At most 20 results."""

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        asked = urlencode({"q": query, "count": min(limit, _MOST), "text_decorations": "false"})
        found = await self.ask(f"/res/v1/web/search?{asked}", permit)
        results = hits(within(found, "web", "results"), description="description", date="page_age")
        return [replace(each, description=re.sub(r"</?strong>", "", each.description)) for each in results]
