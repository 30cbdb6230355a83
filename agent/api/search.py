"""Search over all sessions: queries, hits, and where they match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.recall.opening import embedder_of as embedder_of
    from agent.recall.opening import open_recall as open_recall
    from agent.recall.question import words_of as words_of
    from agent.recall.recall import MESSAGES as MESSAGES
    from agent.recall.recall import MODES as MODES
    from agent.recall.recall import Recall as Recall
    from agent.recall.recall import SearchMode as SearchMode
    from agent.recall.static_embedder import INSTALL_MEANING as INSTALL_MEANING
    from agent.store.matches import spans as spans
    from agent.store.node_text import calls_of as calls_of
    from agent.store.node_text import first_line as first_line
    from agent.store.node_text import readable as readable
    from agent.store.query import Query as Query
    from agent.store.query import parse as parse
    from agent.store.query_line import QueryLine as QueryLine
    from agent.store.query_line import parse_line as parse_line
    from agent.store.search import MAX_HITS as MAX_HITS
    from agent.store.search import PATIENCE as PATIENCE
    from agent.store.search import Filters as Filters
    from agent.store.search import Order as Order
    from agent.store.search import SearchHit as SearchHit
    from agent.store.search import SearchHits as SearchHits

__getattr__ = exports(
    __name__,
    {
        "agent.recall.opening": "embedder_of open_recall",
        "agent.recall.static_embedder": "INSTALL_MEANING",
        "agent.recall.question": "words_of",
        "agent.recall.recall": "MESSAGES MODES SearchMode Recall",
        "agent.store.matches": "spans",
        "agent.store.query": "Query parse",
        "agent.store.query_line": "QueryLine parse_line",
        "agent.store.search": "Filters SearchHit SearchHits MAX_HITS Order PATIENCE",
        "agent.store.node_text": "calls_of first_line readable",
    },
)
