"""Stored sessions: the store, its locks, its recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.sessions.deleting import delete_session as delete_session
    from agent.sessions.script_journal import discard as discard
    from agent.sessions.session_folder import renamed_session as renamed_session
    from agent.sessions.session_folder import worked_in as worked_in
    from agent.store.connection import address as address
    from agent.store.copying import copy_session as copy_session
    from agent.store.faults import explain as explain
    from agent.store.importing import parse_sessions as parse_sessions
    from agent.store.locks import SessionLock as SessionLock
    from agent.store.salvage import recover_copy as recover_copy
    from agent.store.schema import APPLICATION_ID as APPLICATION_ID
    from agent.store.store import Store as Store

__getattr__ = exports(
    __name__,
    {
        "agent.sessions.deleting": "delete_session",
        "agent.sessions.script_journal": "discard",
        "agent.sessions.session_folder": "renamed_session worked_in",
        "agent.store.connection": "address",
        "agent.store.copying": "copy_session",
        "agent.store.faults": "explain",
        "agent.store.importing": "parse_sessions",
        "agent.store.locks": "SessionLock",
        "agent.store.salvage": "recover_copy",
        "agent.store.schema": "APPLICATION_ID",
        "agent.store.store": "Store",
    },
)
