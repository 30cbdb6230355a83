"""Putting a session in order that a killed process left behind.

Every call gets a result and every message an end, so that the conversation can
go on: nothing is run again, and what is unknown is said to be unknown.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from agent.core.store import node_tree, open_calls
from agent.core.store.nodes import NewNode, Node
from agent.core.store.open_calls import MessageDraft, OpenCall

STARTED = "Interrupted: the program ended while this call was running; its effects may be partial."
NOT_STARTED = "Interrupted: the program ended before this call started; nothing was done."


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a branch still waits for."""

    head: str
    draft: MessageDraft | None
    calls: tuple[OpenCall, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was added to a branch: the interrupted message and a result for each open call."""

    session: str
    head: str
    message: Node | None
    results: tuple[Node, ...]

    @property
    def changed(self) -> bool:
        """Whether anything had to be done."""
        return self.message is not None or bool(self.results)


def unfinished(connection: sqlite3.Connection, session: str) -> tuple[Unfinished, ...]:
    """The branches of a session that were cut off, and what they wait for."""
    found = [
        Unfinished(
            head.name,
            open_calls.draft(connection, session, head.name),
            tuple(open_calls.unanswered(connection, session, head.name)),
        )
        for head in node_tree.heads(connection, session)
    ]
    return tuple(each for each in found if each.draft is not None or each.calls)


def recover(
    connection: sqlite3.Connection, session: str, head: str, known: Mapping[str, str] | None = None
) -> Recovery:
    """Give each open call a result and turn the draft into a message. A second time does nothing.

    `known` tells more of single calls, by their id; it becomes a note of the result.
    """
    notes = {call: {"note": text} for call, text in (known or {}).items() if text}
    results = [
        open_calls.finish(
            connection,
            session,
            call.id,
            json.dumps({"error": STARTED if call.started else NOT_STARTED, **notes.get(call.id, {})}),
            {"outcome": "interrupted"},
            head,
        )
        for call in open_calls.unanswered(connection, session, head)
    ]
    message = None
    draft = open_calls.draft(connection, session, head)
    if draft is not None and (draft.text or draft.reasoning):
        data = {"calls": [], "reasoning": draft.reasoning, "state": "interrupted"}
        (message,) = node_tree.append(connection, session, head, [NewNode("assistant", draft.text, data)])
    open_calls.clear_draft(connection, session, head)
    return Recovery(session, head, message, tuple(results))
