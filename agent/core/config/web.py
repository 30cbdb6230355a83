"""Settings of the web: services that search, limits of requests and crawls."""

from __future__ import annotations

from pydantic import Field

from agent.core.config.section import SettingsSection


class SearxngSettings(SettingsSection):
    url: str = Field("", description="Base address of a SearXNG server; empty = none.")


class WebSearchSettings(SettingsSection):
    providers: list[str] = Field(
        ["searxng", "brave", "tavily", "exa", "firecrawl", "parallel", "public", "ddgs"],
        description="Services that search, in order; those without what they need are passed over. `public` "
        "are endpoints of vendors that want no key.",
    )
    timeout: float = Field(20, gt=0, le=300, description="Seconds one service has for an answer.")


class WebCrawlSettings(SettingsSection):
    pages: int = Field(50, ge=1, le=10_000, description="Pages one crawl may fetch at most.")
    size_mb: float = Field(20, gt=0, description="Megabytes one crawl may fetch.")
    seconds: float = Field(180, gt=0, description="Seconds one crawl may take; it can be gone on with.")


class WebSettings(SettingsSection):
    search: WebSearchSettings = WebSearchSettings.model_construct()
    searxng: SearxngSettings = SearxngSettings.model_construct()
    addresses: dict[str, str] = Field(
        {}, description="Other base addresses of search services, by name, such as of your own proxy."
    )
    crawl: WebCrawlSettings = WebCrawlSettings.model_construct()
    timeout: float = Field(30, gt=0, le=600, description="Seconds a page has, with all redirects.")
    page_mb: float = Field(10, gt=0, le=200, description="Megabytes of a page as it comes in.")
    unpacked_mb: float = Field(20, gt=0, le=500, description="Megabytes of a page when it is unpacked.")
    redirects: int = Field(10, ge=0, le=30, description="Redirects that are followed.")
    cache_mb: float = Field(200, ge=0, description="Megabytes of pages kept on the disk; 0 = none are kept.")
