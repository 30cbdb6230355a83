"""Search engines that are queried like a browser would, with the `ddgs` package in a separate process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from agent.core.net.door import Permit, WebClient, client_proxy
from agent.integrations.web.search.service import SearchError, WebHit, hits, within
from tools.extras import add_hint, is_installed
from tools.kit.children import module_command, run_child

_ENGINES = {
    "duckduckgo": ("html.duckduckgo.com", "duckduckgo.com"),
    "brave": ("search.brave.com",),
    "mojeek": ("www.mojeek.com",),
    "startpage": ("www.startpage.com",),
    "yahoo": ("search.yahoo.com",),
}
_HOSTS = frozenset(host for hosts in _ENGINES.values() for host in hosts)
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH")
_LARGEST = 4_000_000


class Ddgs:
    """A search without a key. The result pages that it reads may change their form at any time."""

    name = "ddgs"
    address = "https://html.duckduckgo.com/html/"

    def __init__(self, client: WebClient, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        if not is_installed("web"):
            raise SearchError(f"is not installed (`{add_hint('web')}`)")
        await permit(self.address, "")
        async with client_proxy(self._client, lambda host: host in _HOSTS) as proxy:
            answer = await self._ask(query, limit, proxy)
        if error := answer.get("error"):
            raise SearchError(f"failed ({error})")
        return hits(within(answer, "results"), url="href", description="body")

    async def close(self) -> None:
        return None

    async def _ask(self, query: str, limit: int, proxy: str) -> dict[str, object]:
        order = {"query": query, "limit": limit, "proxy": proxy, "engines": ",".join(_ENGINES)}
        order["seconds"] = max(1, int(self._seconds / 2))
        try:
            output = await run_child(
                module_command("agent.integrations.web.search.ddgs_child"),
                json.dumps(order).encode(),
                seconds=self._seconds,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
            )
        except TimeoutError:
            raise SearchError(f"did not answer within {self._seconds:g} s") from None
        try:
            found = json.loads(output[:_LARGEST])
        except ValueError:
            raise SearchError("failed") from None
        return found if isinstance(found, dict) else {}
