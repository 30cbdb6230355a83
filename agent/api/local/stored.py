"""All sessions of a home, read from its store in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.core.home import Home
from agent.core.store.export import masked
from agent.core.store.nodes import Node, Session
from agent.core.store.search import PATIENCE, Filters, Order, SearchHits
from agent.core.store.store import Store
from agent.knowledge.recall.recall import Recall, SearchMode
from agent.session.conversation.deleting import delete_session


class LocalStored:
    """What `StoredSessions` asks for. Without `recall`, searches find exact matches only."""

    def __init__(self, store: Store, home: Home, recall: Recall | None = None) -> None:
        self._store = store
        self._recall = recall
        self._home = home

    async def newest(self, limit: int) -> Sequence[Session]:
        return await self._store.list_sessions(limit)

    async def session(self, session: str) -> Session:
        return await self._store.session(session)

    async def node(self, session: str, node: int) -> Node:
        return await self._store.node(session, node)

    async def ending(self, session: str, count: int) -> Sequence[Node]:
        head = (await self._store.heads(session))[0].name
        return await self._store.tail(session, head, count)

    async def before(self, session: str, node: int | None, count: int) -> Sequence[Node]:
        if node is None:
            nodes = await self.ending(session, count)
        else:
            nodes = await self._store.before(session, node, count)
        secrets = self._store.secrets
        return await asyncio.to_thread(lambda: [masked(each, secrets) for each in nodes])

    async def search(
        self,
        text: str,
        *,
        filters: Filters | None = None,
        limit: int = 100,
        order: Order = "rank",
        patience: float | None = None,
        mode: SearchMode = "auto",
    ) -> SearchHits:
        patience = PATIENCE if patience is None else patience
        if self._recall is None:
            return await self._store.search(
                text, filters=filters, limit=limit, order=order, patience=patience
            )
        return await self._recall.search(
            text,
            filters=filters,
            limit=limit,
            order=order,
            mode=mode,
            patience=patience,
        )

    async def around(self, node: int, window: int) -> Sequence[Node]:
        nodes, secrets = await self._store.around(node, window), self._store.secrets
        return await asyncio.to_thread(lambda: [masked(each, secrets) for each in nodes])

    async def branch_with(self, session: str, node: int) -> str:
        return await self._store.branch_with(session, node)

    async def use_branch(self, session: str, branch: str) -> None:
        await self._store.use_head(session, branch)

    async def rename(self, session: str, title: str) -> None:
        await self._store.rename(session, title)

    async def delete(self, session: str) -> None:
        await delete_session(self._store, self._home, session, self._recall)
