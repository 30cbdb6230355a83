"""Deleting a stored session with everything that is kept of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.knowledge.canvas.documents import CanvasDocuments
from agent.session.conversation.script_journal import discard
from agent.workspace.checkpoints.garbage_collection import drop_sessions

if TYPE_CHECKING:
    from agent.knowledge.recall.recall import Recall


async def delete_session(store: Store, home: Home, session: str, recall: Recall | None = None) -> list[str]:
    """Delete a session and those of its subagents; returns their ids. `recall` forgets what they said.

    Raises `HermesError` when there is no such session, or another process works on it.
    """
    with SessionLock(home.run, session):
        deleted = await store.delete(session, clearing=None if recall is None else recall.forget)
        await asyncio.to_thread(discard, home.scripts, deleted)
        await asyncio.to_thread(CanvasDocuments(home.canvas).discard, deleted)
        await asyncio.to_thread(drop_sessions, home.checkpoints, deleted)
    return deleted
