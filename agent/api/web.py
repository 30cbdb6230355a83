"""The web as a person uses it at the command line, and the port by which its network is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.net.connecting import Network as Network
    from agent.core.net.upstream import use_network as use_network
    from agent.integrations.web.batch import batch as batch
    from agent.integrations.web.crawl.crawling import crawl as crawl
    from agent.integrations.web.extracting import extract as extract
    from agent.integrations.web.person import PersonsWeb as PersonsWeb
    from agent.integrations.web.person import persons_web as persons_web
    from agent.integrations.web.searching import search as search

__getattr__ = exports(
    __name__,
    {
        "agent.core.net.connecting": "Network",
        "agent.core.net.upstream": "use_network",
        "agent.integrations.web.batch": "batch",
        "agent.integrations.web.crawl.crawling": "crawl",
        "agent.integrations.web.extracting": "extract",
        "agent.integrations.web.person": "PersonsWeb persons_web",
        "agent.integrations.web.searching": "search",
    },
)
