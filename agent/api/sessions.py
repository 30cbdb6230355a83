"""Stored sessions: the store, its locks, its recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.store.connection import address as address
    from agent.core.store.copying import copy_session as copy_session
    from agent.core.store.faults import explain as explain
    from agent.core.store.importing import parse_sessions as parse_sessions
    from agent.core.store.locks import SessionLock as SessionLock
    from agent.core.store.salvage import recover_copy as recover_copy
    from agent.core.store.schema import APPLICATION_ID as APPLICATION_ID
    from agent.core.store.store import Store as Store
    from agent.session.conversation.deleting import delete_session as delete_session
    from agent.session.conversation.script_journal import discard as discard
    from agent.session.conversation.session_folder import renamed_session as renamed_session
    from agent.session.conversation.session_folder import worked_in as worked_in

__getattr__ = exports(
    __name__,
    {
        "agent.session.conversation.deleting": "delete_session",
        "agent.session.conversation.script_journal": "discard",
        "agent.session.conversation.session_folder": "renamed_session worked_in",
        "agent.core.store.connection": "address",
        "agent.core.store.copying": "copy_session",
        "agent.core.store.faults": "explain",
        "agent.core.store.importing": "parse_sessions",
        "agent.core.store.locks": "SessionLock",
        "agent.core.store.salvage": "recover_copy",
        "agent.core.store.schema": "APPLICATION_ID",
        "agent.core.store.store": "Store",
    },
)
