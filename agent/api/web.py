"""The web as a person uses it at the command line, and the port by which its network is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.net.connecting import Network as Network
    from agent.net.upstream import use_network as use_network
    from agent.web.batch import batch as batch
    from agent.web.crawl.crawling import crawl as crawl
    from agent.web.extracting import extract as extract
    from agent.web.person import PersonsWeb as PersonsWeb
    from agent.web.person import persons_web as persons_web
    from agent.web.searching import search as search

__getattr__ = exports(
    __name__,
    {
        "agent.net.connecting": "Network",
        "agent.net.upstream": "use_network",
        "agent.web.batch": "batch",
        "agent.web.crawl.crawling": "crawl",
        "agent.web.extracting": "extract",
        "agent.web.person": "PersonsWeb persons_web",
        "agent.web.searching": "search",
    },
)
