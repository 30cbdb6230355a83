"""Search over all sessions: queries, hits, and where they match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.store.matches import spans as spans
    from agent.core.store.node_text import calls_of as calls_of
    from agent.core.store.node_text import first_line as first_line
    from agent.core.store.node_text import readable as readable
    from agent.core.store.query import Query as Query
    from agent.core.store.query import parse as parse
    from agent.core.store.query_line import QueryLine as QueryLine
    from agent.core.store.query_line import parse_line as parse_line
    from agent.core.store.search import MAX_HITS as MAX_HITS
    from agent.core.store.search import PATIENCE as PATIENCE
    from agent.core.store.search import Filters as Filters
    from agent.core.store.search import Order as Order
    from agent.core.store.search import SearchHit as SearchHit
    from agent.core.store.search import SearchHits as SearchHits
    from agent.knowledge.recall.question import words_of as words_of
    from agent.knowledge.recall.recall import MESSAGES as MESSAGES
    from agent.knowledge.recall.recall import MODES as MODES
    from agent.knowledge.recall.recall import Recall as Recall
    from agent.knowledge.recall.recall import SearchMode as SearchMode
    from agent.knowledge.recall.static_embedder import INSTALL_MEANING as INSTALL_MEANING
    from agent.session.wiring.recall import embedder_of as embedder_of
    from agent.session.wiring.recall import open_recall as open_recall

__getattr__ = exports(
    __name__,
    {
        "agent.session.wiring.recall": "embedder_of open_recall",
        "agent.knowledge.recall.static_embedder": "INSTALL_MEANING",
        "agent.knowledge.recall.question": "words_of",
        "agent.knowledge.recall.recall": "MESSAGES MODES SearchMode Recall",
        "agent.core.store.matches": "spans",
        "agent.core.store.query": "Query parse",
        "agent.core.store.query_line": "QueryLine parse_line",
        "agent.core.store.search": "Filters SearchHit SearchHits MAX_HITS Order PATIENCE",
        "agent.core.store.node_text": "calls_of first_line readable",
    },
)
