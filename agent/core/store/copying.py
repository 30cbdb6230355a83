"""Copying of a stored session: the branch in use as a session of its own."""

from __future__ import annotations

from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.nodes import MAIN
from agent.core.store.store import Store
from agent.errors import StoreError


async def copy_session(store: Store, session: str) -> str:
    """Copy the branch in use into a new session; its id. Raises `StoreError`."""
    known = await store.session(session)
    heads = await store.heads(session)
    path = await store.path(session, heads[0].name) if heads else []
    if not path:
        raise StoreError("Nothing was said in this session yet; begin a new one instead.")
    nodes = [
        NodeRecord(each.id, each.parent, each.kind, each.created, each.content, each.data) for each in path
    ]
    record = SessionRecord(
        known.id, nodes, {MAIN: path[-1].id}, known.title, workspace=known.workspace, model=known.model
    )
    (copied,) = await store.import_sessions([record], copied=True)
    return copied.session
