"""Database rows of messengers: gateways, people, places and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from agent.core.store.nodes import storable
from agent.integrations.gateways.adapter import Incoming, Place


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """The state of a gateway and its message counts."""

    name: str
    state: str
    who: str
    problem: str
    since: float
    """The time of the last change of state, in seconds since the epoch; 0: it never ran."""
    waiting: int
    owed: int
    failed: int


KEPT = 30 * 86_400.0
"""Seconds for which message ids are remembered, so that a repeated delivery is recognized."""
BACKOFF = (2, 5, 15, 60, 300, 900, 3_600, 21_600)
"""Seconds before each further try of a failed delivery; after the last try it is given up."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A received message and its row in the store."""

    id: int
    incoming: Incoming
    state: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message to send or, if `message` holds its id on the platform, to edit."""

    id: int
    place: Place
    kind: str
    body: Mapping[str, Any]
    state: str
    message: str
    session: str
    node: int | None
    tries: int


@dataclass(frozen=True, slots=True)
class BoundPlace:
    """A chat or thread and the session that it is connected to; `told` is the last node sent to it."""

    place: Place
    session: str
    told: int
    is_group: bool


# What came in


def receive(c: Connection, gateway: str, incoming: Incoming, now: float) -> bool:
    """Store a message; return False for an edit, and if the message is already known.

    An edit by the sender changes a stored message while it is waiting.
    """
    place = incoming.place
    data = storable(json.dumps(incoming.to_json()))
    if incoming.kind == "edited":
        row = c.execute(
            "SELECT id, data FROM received WHERE gateway = ? AND chat = ? AND thread = ? "
            "AND kind = 'message' AND message = ? AND state = 'waiting'",
            (gateway, place.chat, place.thread, incoming.id),
        ).fetchone()
        if row is not None and (held := json.loads(row[1]))["sender"]["id"] == incoming.sender.id:
            changed = {**held, "text": incoming.text}
            c.execute("UPDATE received SET data = ? WHERE id = ?", (storable(json.dumps(changed)), row[0]))
        return False
    c.execute("DELETE FROM received WHERE gateway = ? AND state = 'done' AND at < ?", (gateway, now - KEPT))
    return (
        c.execute(
            "INSERT OR IGNORE INTO received (gateway, chat, thread, kind, message, data, at, state) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting')",
            (gateway, place.chat, place.thread, incoming.kind, incoming.id, data, now),
        ).rowcount
        == 1
    )


def requeue_handed_messages(c: Connection, gateway: str) -> None:
    """Reset to waiting the messages that an earlier process handed over but no session stored."""
    c.execute("UPDATE received SET state = 'waiting' WHERE gateway = ? AND state = 'handed'", (gateway,))


def waiting(c: Connection, gateway: str, place: Place) -> list[ReceivedMessage]:
    """Return the waiting messages of a place, oldest first."""
    rows = c.execute(
        "SELECT id, data, state FROM received WHERE gateway = ? AND state = 'waiting' "
        "AND chat = ? AND thread = ? ORDER BY id",
        (gateway, place.chat, place.thread),
    )
    return [ReceivedMessage(id, Incoming.from_json(json.loads(data)), state) for id, data, state in rows]


def unfinished_places(c: Connection, gateway: str) -> list[Place]:
    """Return the chats and threads that have messages not fully handled."""
    rows = c.execute(
        "SELECT DISTINCT chat, thread FROM received WHERE gateway = ? AND state != 'done'", (gateway,)
    )
    return [Place(chat, thread) for chat, thread in rows]


def mark_handed(c: Connection, id: int, session: str, text: str) -> None:
    """Mark a waiting message as being passed to a session, with the text that the session gets."""
    c.execute(
        "UPDATE received SET state = 'handed', session = ?, text = ? WHERE id = ? AND state = 'waiting'",
        (session, storable(text), id),
    )


def handed_messages(c: Connection, gateway: str, place: Place, session: str) -> list[tuple[int, str]]:
    """Return row id and text of each message that a session was given but has not stored."""
    rows = c.execute(
        "SELECT id, text FROM received WHERE gateway = ? AND chat = ? AND thread = ? AND session = ? "
        "AND state = 'handed' AND node IS NULL ORDER BY id",
        (gateway, place.chat, place.thread, session),
    )
    return rows.fetchall()


def requeue_messages(c: Connection, ids: Sequence[int]) -> None:
    """Reset to waiting those messages that a session could not store."""
    c.executemany(
        "UPDATE received SET state = 'waiting' WHERE id = ? AND state = 'handed' AND node IS NULL",
        [(each,) for each in ids],
    )


def mark_done(c: Connection, id: int) -> None:
    """Mark a received message as fully handled."""
    c.execute("UPDATE received SET state = 'done' WHERE id = ?", (id,))


def has_taken_message(c: Connection, gateway: str, session: str) -> bool:
    """Return whether a session has stored a received message whose turn may still be unfinished."""
    row = c.execute(
        "SELECT 1 FROM received WHERE gateway = ? AND session = ? AND state = 'taken' LIMIT 1",
        (gateway, session),
    ).fetchone()
    return row is not None


def mark_turn_done(c: Connection, session: str, node: int) -> None:
    """Mark the messages that a session stored up to `node` as fully handled, because their turn has ended."""
    c.execute(
        "UPDATE received SET state = 'done' WHERE session = ? AND state = 'taken' AND node <= ?",
        (session, node),
    )


def is_from(c: Connection, gateway: str, place: Place, node: int) -> bool:
    """Return whether a node is a message that was received from this place."""
    row = c.execute(
        "SELECT 1 FROM received WHERE node = ? AND gateway = ? AND chat = ? AND thread = ?",
        (node, gateway, place.chat, place.thread),
    ).fetchone()
    return row is not None


# Places


def bind(c: Connection, gateway: str, place: Place, session: str, told: int, group: bool, now: float) -> None:
    """Connect a place to a session. `told` is the last node that was already sent to the place."""
    c.execute(
        "REPLACE INTO gateway_places VALUES (?, ?, ?, ?, ?, ?, ?)",
        (gateway, place.chat, place.thread, session, told, int(group), now),
    )
    _leave_turns(c)


def unbind(c: Connection, gateway: str, place: Place) -> None:
    """Disconnect a place from its session."""
    c.execute(
        "DELETE FROM gateway_places WHERE gateway = ? AND chat = ? AND thread = ?",
        (gateway, place.chat, place.thread),
    )
    _leave_turns(c)


def _leave_turns(c: Connection) -> None:
    """Mark as fully handled the messages of sessions without a chat, which no chat waits for."""
    c.execute(
        "UPDATE received SET state = 'done' WHERE state = 'taken' "
        "AND session NOT IN (SELECT session FROM gateway_places)"
    )


def find_bound_place(c: Connection, gateway: str, place: Place) -> BoundPlace | None:
    """Return the session that a place is connected to; None if there is none."""
    row = c.execute(
        "SELECT session, told, is_group FROM gateway_places WHERE gateway = ? AND chat = ? AND thread = ?",
        (gateway, place.chat, place.thread),
    ).fetchone()
    return None if row is None else BoundPlace(place, row[0], row[1], bool(row[2]))


def bound_places(c: Connection, gateway: str) -> list[BoundPlace]:
    """Return all connected places of a gateway, the most recently used first."""
    rows = c.execute(
        "SELECT chat, thread, session, told, is_group FROM gateway_places WHERE gateway = ? "
        "ORDER BY used DESC",
        (gateway,),
    )
    return [BoundPlace(Place(chat, thread), s, told, bool(group)) for chat, thread, s, told, group in rows]


def places_of(c: Connection, session: str) -> list[tuple[str, BoundPlace]]:
    """Return the gateways and places that are connected to a session."""
    rows = c.execute(
        "SELECT gateway, chat, thread, told, is_group FROM gateway_places WHERE session = ?", (session,)
    )
    return [(g, BoundPlace(Place(chat, thread), session, told, bool(b))) for g, chat, thread, told, b in rows]


def move_chat(c: Connection, gateway: str, old: str, new: str) -> None:
    """Move the connections of a chat, its waiting messages and its deliveries to the chat's new id."""
    c.execute(
        "UPDATE OR IGNORE gateway_places SET chat = ? WHERE gateway = ? AND chat = ?", (new, gateway, old)
    )
    c.execute("UPDATE deliveries SET chat = ? WHERE gateway = ? AND chat = ?", (new, gateway, old))
    # The numbers of its messages begin again.
    c.execute(
        "UPDATE received SET chat = ?, message = ? || message WHERE gateway = ? AND chat = ? "
        "AND state != 'done'",
        (new, f"{old}:", gateway, old),
    )


# What goes out


def queue_delivery(
    c: Connection,
    gateway: str,
    place: Place,
    kind: str,
    body: Mapping[str, Any],
    now: float,
    *,
    session: str = "",
    node: int | None = None,
    state: str = "waiting",
) -> int:
    """Queue something to be sent and return its row id."""
    cursor = c.execute(
        "INSERT INTO deliveries (gateway, chat, thread, kind, body, state, session, node, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(gateway, place.chat, place.thread, kind, storable(json.dumps(body)), state, session, node),
            now,
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def queue_node(
    c: Connection,
    gateway: str,
    bound_place: BoundPlace,
    node: int,
    bodies: Sequence[Mapping[str, Any]],
    now: float,
) -> bool:
    """Queue the messages of a node for delivery, once only; return False if that was already done.

    If a draft shows the beginning of the text, it becomes the first message.
    """
    place = bound_place.place
    moved = c.execute(
        "UPDATE gateway_places SET told = ?, used = ? WHERE gateway = ? AND chat = ? AND thread = ? "
        "AND session = ? AND told < ?",
        (node, now, gateway, place.chat, place.thread, bound_place.session, node),
    ).rowcount
    if moved != 1:
        return False
    rest = list(bodies)
    if rest and (draft := draft_of(c, gateway, place, bound_place.session)):
        c.execute(
            "UPDATE deliveries SET body = ?, state = 'waiting', node = ?, tries = 0, retry = 0 WHERE id = ?",
            (storable(json.dumps(rest.pop(0))), node, draft),
        )
    for body in rest:
        queue_delivery(c, gateway, place, "text", body, now, session=bound_place.session, node=node)
    return True


def due_deliveries(c: Connection, gateway: str, now: float) -> list[Delivery]:
    """Return the first waiting delivery of each place, unless the time of its next try has not come yet."""
    rows = c.execute(
        "SELECT id, chat, thread, kind, body, state, message, session, node, tries, retry FROM deliveries "
        "WHERE gateway = ? AND state = 'waiting' ORDER BY id",
        (gateway,),
    )
    found: dict[tuple[str, str], Delivery | None] = {}
    for id, chat, thread, kind, body, state, message, session, node, tries, retry in rows:
        if (chat, thread) not in found:
            made = Delivery(
                id, Place(chat, thread), kind, json.loads(body), state, message, session, node, tries
            )
            found[chat, thread] = made if retry <= now else None
    return [each for each in found.values() if each is not None]


def delivery(c: Connection, id: int) -> Delivery | None:
    """Return the delivery in a row; None if there is none."""
    row = c.execute(
        "SELECT id, chat, thread, kind, body, state, message, session, node, tries FROM deliveries "
        "WHERE id = ?",
        (id,),
    ).fetchone()
    if row is None:
        return None
    id, chat, thread, kind, body, *rest = row
    return Delivery(id, Place(chat, thread), kind, json.loads(body), *rest)


def mark_sent(c: Connection, id: int, message: str, body: Mapping[str, Any] | None = None) -> None:
    """Mark a delivery as sent, with its message id on the platform.

    If `body` is given and the row's content has changed since, the row keeps waiting.
    """
    told = None if body is None else storable(json.dumps(body))
    c.execute(
        "UPDATE deliveries SET message = ?, state = CASE WHEN state = 'waiting' AND (? IS NULL OR body = ?) "
        "THEN 'sent' ELSE state END, problem = '' WHERE id = ?",
        (message, told, told, id),
    )


def waiting_files(c: Connection, gateway: str) -> list[str]:
    """Return the paths of file copies that wait to be sent."""
    rows = c.execute(
        "SELECT json_extract(body, '$.path') FROM deliveries WHERE gateway = ? AND kind = 'file' "
        "AND state = 'waiting'",
        (gateway,),
    )
    return [path for (path,) in rows]


def send_anew(c: Connection, id: int) -> None:
    """Send a delivery as a new message, because the one that it should edit no longer exists."""
    c.execute("UPDATE deliveries SET message = '' WHERE id = ?", (id,))


def retry_later(c: Connection, each: Delivery, now: float, problem: str, wait: float | None = None) -> None:
    """Schedule another try of a delivery, or mark it as failed after too many.

    If `wait` (seconds) is given, the delay has another cause and does not count as a try.
    """
    if wait is not None:
        c.execute("UPDATE deliveries SET retry = ?, problem = ? WHERE id = ?", (now + wait, problem, each.id))
    elif each.tries >= len(BACKOFF):
        mark_failed(c, each.id, problem)
    else:
        c.execute(
            "UPDATE deliveries SET retry = ?, tries = tries + 1, problem = ? WHERE id = ?",
            (now + BACKOFF[each.tries], problem, each.id),
        )


def mark_failed(c: Connection, id: int, problem: str) -> None:
    """Mark a delivery as failed for good."""
    c.execute("UPDATE deliveries SET state = 'failed', problem = ? WHERE id = ?", (problem, id))


def draft_of(c: Connection, gateway: str, place: Place, session: str) -> int:
    """Return the row id of the newest draft that is shown in a place; 0 if there is none.

    An answer can replace it.
    """
    row = c.execute(
        "SELECT id FROM deliveries WHERE gateway = ? AND state = 'draft' AND chat = ? AND thread = ? "
        "AND session = ? AND message != '' ORDER BY id DESC LIMIT 1",
        (gateway, place.chat, place.thread, session),
    ).fetchone()
    return row[0] if row else 0


def drop_drafts(c: Connection, gateway: str, place: Place, session: str) -> None:
    """Turn shown drafts into sent messages, so that no later answer replaces them."""
    c.execute(
        "UPDATE deliveries SET state = 'sent' WHERE gateway = ? AND state = 'draft' AND chat = ? "
        "AND thread = ? AND session = ?",
        (gateway, place.chat, place.thread, session),
    )


def edit_delivery(c: Connection, id: int, body: Mapping[str, Any]) -> None:
    """Replace the content of a sent message, so that it is edited on the platform."""
    c.execute(
        "UPDATE deliveries SET body = ?, state = 'waiting', retry = 0, tries = 0 WHERE id = ?",
        (storable(json.dumps(body)), id),
    )


def open_asks(c: Connection, gateway: str, session: str) -> list[Delivery]:
    """Return the open questions of a session that were sent to chats of a gateway, oldest first."""
    rows = c.execute(
        "SELECT id FROM deliveries WHERE session = ? AND kind = 'ask' AND gateway = ? "
        "AND json_extract(body, '$.open') ORDER BY id",
        (session, gateway),
    ).fetchall()
    found = (delivery(c, id) for (id,) in rows)
    return [each for each in found if each is not None]


# How it stands


def store_state(c: Connection, gateway: str, state: str, who: str, problem: str, now: float) -> None:
    """Store the state of a gateway for `hermes gateway status`."""
    c.execute("REPLACE INTO gateway_states VALUES (?, ?, ?, ?, ?)", (gateway, state, who, problem, now))


def statuses(c: Connection, names: Sequence[str]) -> list[GatewayStatus]:
    """Return the status of each of these gateways; `stopped` if none was stored."""
    rows = c.execute("SELECT gateway, state, who, problem, at FROM gateway_states")
    known = {name: (state, who, problem, at) for name, state, who, problem, at in rows}
    return [
        GatewayStatus(name, *known.get(name, ("stopped", "", "", 0.0)), *counts(c, name)) for name in names
    ]


def counts(c: Connection, gateway: str) -> tuple[int, int, int]:
    """Return the numbers of unhandled received messages, waiting deliveries and failed deliveries."""
    (first,) = c.execute(
        "SELECT count(*) FROM received WHERE gateway = ? AND state != 'done'", (gateway,)
    ).fetchone()
    (second,) = c.execute(
        "SELECT count(*) FROM deliveries WHERE gateway = ? AND state = 'waiting'", (gateway,)
    ).fetchone()
    (third,) = c.execute(
        "SELECT count(*) FROM deliveries WHERE gateway = ? AND state = 'failed'", (gateway,)
    ).fetchone()
    return first, second, third
