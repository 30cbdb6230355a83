"""The search in the form in which tools use it (`tools.context.SessionSearch`).

Each hit includes the messages around it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import cast

from agent.core.store.nodes import readable
from agent.core.store.query_line import Filters
from agent.core.store.search import SearchHit, around_hit
from agent.core.store.store import Store
from agent.knowledge.recall.recall import MESSAGES, Recall, SearchMode
from tools.context import FoundMessage, FoundNote, FoundSession, SessionSearch

PATIENCE = 1.0
"""Seconds for searching older messages for parts of words."""


class ToolSearch(SessionSearch):
    """The search with one hit per session, because the model is shown the surrounding messages anyway."""

    def __init__(self, recall: Recall, store: Store) -> None:
        self._recall = recall
        self._store = store

    async def search(
        self,
        query: str,
        *,
        roles: Sequence[str] = (),
        session: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 5,
        offset: int = 0,
        window: int = 3,
        mode: str = "auto",
    ) -> tuple[int, list[FoundSession | FoundNote]]:
        """See `tools.context.SessionSearch.search`."""
        hits = await self._recall.search(
            query,
            filters=Filters(roles=tuple(roles), session=session, since=since, until=until),
            limit=limit,
            offset=offset,
            mode=cast(SearchMode, mode),
            patience=PATIENCE,
            by_session=session is None,
        )
        return hits.total, [await self._describe_hit(hit, window) for hit in hits.hits]

    async def _describe_hit(self, hit: SearchHit, window: int) -> FoundSession | FoundNote:
        if hit.source != MESSAGES:
            return FoundNote(hit.source, hit.title, hit.snippet, hit.created, hit.ways)

        def read(connection: sqlite3.Connection) -> FoundSession:
            session, nodes = around_hit(connection, hit, window)
            messages = tuple(
                FoundMessage(
                    each.id,
                    each.kind,
                    each.created,
                    readable(each.kind, each.content, each.data),
                    each.id == hit.node,
                )
                for each in nodes
            )
            return FoundSession(
                session.id, session.title, session.created, hit.node, hit.snippet, messages, hit.ways
            )

        return await self._store.database.read(read)
