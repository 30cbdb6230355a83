"""Web search services that plugins provide, used like the built-in ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.net.door import Permit
from agent.integrations.plugins.session_plugins import PluginRunner, SessionPlugins
from agent.integrations.web.search.service import WebHit, hits, within

HERE = "this machine"
"""The destination of a query if the plugin declares no hosts."""


@dataclass(frozen=True, slots=True)
class PluginSearch:
    """One search service of one plugin. Its sandbox reaches only the hosts that the plugin declared."""

    runner: PluginRunner
    provider: str

    @property
    def name(self) -> str:
        return f"{self.runner.name}.{self.provider}"

    @property
    def address(self) -> str:
        return ", ".join(self.runner.hosts) or HERE

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        found = await self.runner.ask("provider", f"search {self.provider}", {"query": query, "limit": limit})
        listed = within(found, "results") if isinstance(found, dict) else found
        return hits(listed, description="description", date="date")[:limit]

    async def close(self) -> None:
        """Do nothing, because the process of the plugin ends with the session."""


def plugin_search(plugins: SessionPlugins) -> list[PluginSearch]:
    """Return all search services of the enabled plugins, in the order of the plugins."""
    return [PluginSearch(runner, each.name) for runner, each in plugins.providers() if each.kind == "search"]
