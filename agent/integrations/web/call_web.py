"""Web access for one tool call: implements `tools.services.web_reader` with the session's web services."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.integrations.web.services import Ask, CallGate, WebServices
from tools.results import ToolError
from tools.services.actions import Fetch
from tools.services.web_reader import CrawlOrder, WebReader


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWeb(WebReader):
    """Search, reading and crawling for one tool call.

    `ask`, `agreed` and `opens` are those of `CallGate`. `scratch` creates the folder for files when it is
    needed.
    """

    services: WebServices
    ask: Ask
    agreed: Ask
    opens: Callable[[Fetch], bool]
    scratch: Callable[[], Path]
    progress: Callable[[str], None]

    def _gate(self, tool: str) -> CallGate:
        return CallGate(tool=tool, ask=self.ask, agreed=self.agreed, opens=self.opens)

    async def search(self, query: str, limit: int) -> Mapping[str, Any]:
        from agent.integrations.web.extracting import search

        return await search(self.services, self._gate("web_search"), query, limit)

    async def extract(self, urls: Sequence[str], query: str, char_limit: int) -> Mapping[str, Any]:
        from agent.integrations.web.extracting import extract

        folder = self.scratch() / "web"
        try:
            return await extract(self.services, self._gate("web_extract"), urls, query, char_limit, folder)
        except OSError as error:
            raise ToolError(str(error)) from error

    async def crawl(self, order: CrawlOrder) -> Mapping[str, Any]:
        from agent.integrations.web.crawl.crawling import crawl

        try:
            return await crawl(self.services, self._gate("web_crawl"), order, self.progress)
        except OSError as error:
            raise ToolError(str(error)) from error
