"""Calls and turns that a killed process left unfinished, and their repair."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.core.store import node_tree
from agent.core.store.nodes import ANY, Expected, NewNode, Node, storable
from agent.errors import StoreError
from tools.text.safe_text import clean

_CLOSED = frozenset({"done", "failed", "denied", "interrupted"})
_STEP = 64
"""The number of nodes read at once on the way back to the last assistant message."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without a result. `node` is the message that requested it; `started` is True if it had begun to
    run.
    """

    node: int
    id: str
    name: str
    started: bool


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """The part of an assistant message that has been streamed so far."""

    text: str
    reasoning: str


def start(connection: sqlite3.Connection, session: str, node: int, call: str, name: str) -> None:
    """Record that a call begins to run. Raises `StoreError` if the node did not request it."""
    asker = node_tree.node_of(connection, session, node)
    if call not in _calls_of(asker):
        raise StoreError(f"Message {node} of session {session} asks for no call {clean(call)}.")
    connection.execute(
        "INSERT INTO calls (node, call, session, name, state, started) VALUES (?, ?, ?, ?, 'running', ?) "
        "ON CONFLICT (node, call) DO UPDATE SET state = 'running', started = excluded.started, "
        "ended = NULL, result = NULL",
        (node, storable(call), session, storable(name), time.time()),
    )


def finish(
    connection: sqlite3.Connection,
    session: str,
    call: str,
    content: str,
    data: Mapping[str, Any],
    head: str,
    expected: Expected = ANY,
) -> Node:
    """Append the tool node with the result and close the call. Raises `StoreError` if the call is not open,
    and `HeadMoved`.

    A call that was never started, because it was refused, can be closed too.
    """
    node_tree.check_tip(session, head, expected, node_tree.tip(connection, session, head))
    waiting_calls = {each.id: each for each in open_calls(connection, session, head)}
    waiting = waiting_calls.get(call)
    if waiting is None:
        raise StoreError(
            f"No call {clean(call)} waits for a result on the branch {head} of session {session}."
        )
    outcome = data.get("outcome", "done")
    if outcome not in _CLOSED:
        raise StoreError(f"A call cannot end as {outcome}; use one of {', '.join(sorted(_CLOSED))}.")
    data = {"call": call, "tool": waiting.name, **data}
    (node,) = node_tree.append(connection, session, head, [NewNode("tool", content, data)], expected)
    connection.execute(
        "INSERT INTO calls (node, call, session, name, state, ended, result) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (node, call) DO UPDATE SET state = excluded.state, ended = excluded.ended, "
        "result = excluded.result",
        (waiting.node, storable(call), session, storable(waiting.name), outcome, node.created, node.id),
    )
    return node


def open_calls(connection: sqlite3.Connection, session: str, head: str) -> list[OpenCall]:
    """Return those calls of the last assistant message on a branch that have no result, in order."""
    asker, after = _last_assistant(connection, node_tree.tip(connection, session, head))
    if asker is None:
        return []
    answered = {node.data.get("call") for node in after if node.kind == "tool"}
    asked = _calls_of(asker)
    started = {
        call
        for (call,) in connection.execute(
            "SELECT call FROM calls WHERE node = ? AND started IS NOT NULL", (asker.id,)
        )
    }
    return [
        OpenCall(asker.id, call, name, storable(call) in started)
        for call, name in asked.items()
        if call not in answered
    ]


def _last_assistant(connection: sqlite3.Connection, tip: int | None) -> tuple[Node | None, list[Node]]:
    """Return the last assistant node on the path to `tip`, or None, and the nodes after it."""
    after: list[Node] = []
    while tip is not None:
        nodes = node_tree.lineage(connection, tip, _STEP)
        for index in range(len(nodes) - 1, -1, -1):
            if nodes[index].kind == "assistant":
                return nodes[index], nodes[index + 1 :] + after
        after = nodes + after
        tip = nodes[0].parent if nodes else None
    return None, after


def _calls_of(node: Node) -> dict[str, str]:
    """Return the names of the calls that an assistant node requests, by id; empty for other nodes."""
    calls = node.data.get("calls")
    if node.kind != "assistant" or not isinstance(calls, list):
        return {}
    return {
        str(call["id"]): str(call.get("name", ""))
        for call in calls
        if isinstance(call, dict) and "id" in call
    }


def save_draft(connection: sqlite3.Connection, session: str, head: str, text: str, reasoning: str) -> None:
    """Save the text streamed so far. Raises `StoreError` if the branch does not exist."""
    node_tree.tip(connection, session, head)
    connection.execute(
        "INSERT INTO drafts VALUES (?, ?, ?, ?, ?) ON CONFLICT (session, head) DO UPDATE "
        "SET content = excluded.content, reasoning = excluded.reasoning, updated = excluded.updated",
        (session, head, storable(text), storable(reasoning), time.time()),
    )


def draft(connection: sqlite3.Connection, session: str, head: str) -> MessageDraft | None:
    """Return the message that was being streamed on a branch; None if there is none."""
    row = connection.execute(
        "SELECT content, reasoning FROM drafts WHERE session = ? AND head = ?", (session, head)
    ).fetchone()
    return None if row is None else MessageDraft(*row)


def clear_draft(connection: sqlite3.Connection, session: str, head: str) -> None:
    """Delete the draft of a branch."""
    connection.execute("DELETE FROM drafts WHERE session = ? AND head = ?", (session, head))


STARTED = "Interrupted: the program ended while this call was running; its effects may be partial."
NOT_STARTED = "Interrupted: the program ended before this call started; nothing was done."


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A branch that a killed process left unfinished, with its open calls and draft."""

    head: str
    draft: MessageDraft | None
    calls: tuple[OpenCall, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The nodes added to repair a branch: the interrupted message and a result for each open call."""

    session: str
    head: str
    message: Node | None
    results: tuple[Node, ...]

    @property
    def has_changes(self) -> bool:
        """True if any node was added."""
        return self.message is not None or bool(self.results)


def unfinished_branches(connection: sqlite3.Connection, session: str) -> tuple[Unfinished, ...]:
    """Return the branches of a session that have open calls or a draft."""
    found = [
        Unfinished(
            head.name,
            draft(connection, session, head.name),
            tuple(open_calls(connection, session, head.name)),
        )
        for head in node_tree.heads(connection, session)
    ]
    return tuple(each for each in found if each.draft is not None or each.calls)


def recover(
    connection: sqlite3.Connection, session: str, head: str, known: Mapping[str, str] | None = None
) -> Recovery:
    """Store a result for each open call and turn the draft into a message. A second call changes nothing.

    `known` maps ids of calls to further details, which become a note in the result.
    """
    notes = {call: {"note": text} for call, text in (known or {}).items() if text}
    results = [
        finish(
            connection,
            session,
            call.id,
            json.dumps({"error": STARTED if call.started else NOT_STARTED, **notes.get(call.id, {})}),
            {"outcome": "interrupted"},
            head,
        )
        for call in open_calls(connection, session, head)
    ]
    message = None
    begun = draft(connection, session, head)
    if begun is not None and (begun.text or begun.reasoning):
        data = {"calls": [], "reasoning": begun.reasoning, "state": "interrupted"}
        (message,) = node_tree.append(connection, session, head, [NewNode("assistant", begun.text, data)])
    clear_draft(connection, session, head)
    return Recovery(session, head, message, tuple(results))
