"""The search services that settings and keys make usable, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from agent.core.net.door import Door
from agent.integrations.web.search.service import SearchService

if TYPE_CHECKING:
    from agent.core.config.sections import WebSettings

_KEYED = {
    "brave": ("Brave", "https://api.search.brave.com", "BRAVE_API_KEY", "X-Subscription-Token", ""),
    "tavily": ("Tavily", "https://api.tavily.com", "TAVILY_API_KEY", "Authorization", "Bearer "),
    "exa": ("Exa", "https://api.exa.ai", "EXA_API_KEY", "x-api-key", ""),
    "firecrawl": ("Firecrawl", "https://api.firecrawl.dev", "FIRECRAWL_API_KEY", "Authorization", "Bearer "),
    "parallel": ("Parallel", "https://api.parallel.ai", "PARALLEL_API_KEY", "x-api-key", ""),
}
"""Class, address, variable of the key, header, and what stands before the key there."""
PUBLIC = "public"
KEYS = {name: kind[2] for name, kind in _KEYED.items()}
"""The variable with the key of each service that wants one."""


def search_services(settings: WebSettings, door: Door, variables: Mapping[str, str]) -> list[SearchService]:
    """Those that can be asked now. Names nobody knows are passed over."""
    found: list[SearchService] = []
    for name in dict.fromkeys(settings.search.providers):
        found += _services(name, settings, door, variables)
    return found


def _services(
    name: str, settings: WebSettings, door: Door, variables: Mapping[str, str]
) -> list[SearchService]:
    named = settings.addresses.get(name, "")
    seconds = settings.search.timeout
    if name == "searxng":
        from agent.integrations.web.search.providers.searxng import Searxng

        base = settings.searxng.url or named
        return [Searxng(name=name, address=base, door=door, headers={}, own=base)] if base else []
    if name == "ddgs":
        from agent.integrations.web.search.providers.ddgs import Ddgs

        return [Ddgs(door, seconds)]
    if name in _KEYED:
        kind, address, variable, header, before = _KEYED[name]
        if not (key := variables.get(variable, "").strip()):
            return []
        service = getattr(import_module(f"agent.integrations.web.search.providers.{name}"), kind)
        headers = {header: f"{before}{key}"}
        return [service(name=name, address=named or address, door=door, headers=headers, own=named)]
    from agent.integrations.web.search.providers.public_mcp import PublicEndpoint, endpoints

    return [
        PublicEndpoint(
            each,
            settings.addresses.get(each) or data["address"],
            data["tool"],
            data["arguments"],
            door,
            own=each in settings.addresses,
            seconds=seconds,
        )
        for each, data in endpoints().items()
        if name in (PUBLIC, each)
    ]
