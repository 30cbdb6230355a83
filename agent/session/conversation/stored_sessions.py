"""Stored sessions: viewing, searching, renaming, and deleting them with all related data."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.store.export import mask_node
from agent.core.store.locks import SessionLock
from agent.core.store.nodes import Node, Session
from agent.core.store.search import PATIENCE, Filters, Order, SearchHits
from agent.core.store.store import Store
from agent.knowledge.canvas.documents import CanvasDocuments
from agent.session.conversation.script_journal import discard
from agent.workspace.checkpoints.garbage_collection import drop_sessions

if TYPE_CHECKING:
    from agent.knowledge.recall.recall import Recall, SearchMode


async def delete_session(store: Store, home: Home, session: str, recall: Recall | None = None) -> list[str]:
    """Delete a session and the sessions of its subagents; return their ids. Their texts are also removed from
    `recall`.

    Raises `HermesError` when the session does not exist, or another process works on it.
    """
    with SessionLock(home.run, session):
        deleted = await store.delete(session, clearing=None if recall is None else recall.forget)
        await asyncio.to_thread(discard, home.scripts, deleted)
        await asyncio.to_thread(CanvasDocuments(home.canvas).discard, deleted)
        await asyncio.to_thread(drop_sessions, home.checkpoints, deleted)
    return deleted


class StoredSessions:
    """All sessions in this Hermes home folder. Without `recall`, searches find exact matches only."""

    def __init__(self, store: Store, home: Home, recall: Recall | None = None) -> None:
        self._store = store
        self._recall = recall
        self._home = home

    async def newest(self, limit: int) -> Sequence[Session]:
        """Return the most recently used sessions, newest first, without those that were only opened."""
        return await self._store.list_sessions(limit, said=True)

    async def session(self, session: str) -> Session:
        return await self._store.session(session)

    async def node(self, session: str, node: int) -> Node:
        """Return a message with its full text."""
        return await self._store.node(session, node)

    async def ending(self, session: str, count: int) -> Sequence[Node]:
        """Return the last `count` nodes of a session, oldest first."""
        head = (await self._store.heads(session))[0].name
        return await self._store.tail(session, head, count)

    async def before(self, session: str, node: int | None, count: int) -> Sequence[Node]:
        """Return up to `count` nodes before a node or, for None, at the end of the branch in use. Secrets are
        masked.
        """
        if node is None:
            nodes = await self.ending(session, count)
        else:
            nodes = await self._store.before(session, node, count)
        secrets = self._store.secrets
        return await asyncio.to_thread(lambda: [mask_node(node, secrets) for node in nodes])

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
        """Return at most `limit` messages that match.

        The search ends after `patience` seconds, with the matches found so far.
        """
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
        """Return a node with up to `window` nodes on either side, secrets masked."""
        nodes, secrets = await self._store.around(node, window), self._store.secrets
        return await asyncio.to_thread(lambda: [mask_node(node, secrets) for node in nodes])

    async def branch_with(self, session: str, node: int) -> str:
        """Return the name of a branch that contains the node; if there is none, create one."""
        return await self._store.branch_with(session, node)

    async def use_branch(self, session: str, branch: str) -> None:
        """Set the branch that is in use when the session is next opened."""
        await self._store.use_head(session, branch)

    async def rename(self, session: str, title: str) -> None:
        await self._store.rename(session, title)

    async def delete(self, session: str) -> None:
        """Delete a session and all related data. Raises `HermesError` if another process works on it."""
        await delete_session(self._store, self._home, session, self._recall)
