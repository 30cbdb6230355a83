"""Rows of messengers in the store: gateways, people, places and messages."""

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
    """How a gateway stands."""

    name: str
    state: str
    who: str
    problem: str
    since: float
    """Seconds since the epoch; 0: it never ran."""
    waiting: int
    owed: int
    failed: int


KEPT = 30 * 86_400.0
"""Seconds for which ids of messages are remembered, so that one that is delivered again is known."""
BACKOFF = (2, 5, 15, 60, 300, 900, 3_600, 21_600)
"""Seconds until a delivery that failed is tried again; after the last one it is given up."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as it was stored."""

    id: int
    incoming: Incoming
    state: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something to send, or, where it has a `message` already, to change."""

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
    """A place and the session it talks to."""

    place: Place
    session: str
    told: int
    is_group: bool


# What came in


def receive(c: Connection, gateway: str, incoming: Incoming, now: float) -> bool:
    """Store a message; False for one that is known. An edit by its sender changes it while it waits."""
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


def begin_again(c: Connection, gateway: str) -> None:
    """What an earlier process had handed over and was not committed waits again."""
    c.execute("UPDATE received SET state = 'waiting' WHERE gateway = ? AND state = 'handed'", (gateway,))


def waiting(c: Connection, gateway: str, place: Place) -> list[ReceivedMessage]:
    """Messages of a place that wait, oldest first."""
    rows = c.execute(
        "SELECT id, data, state FROM received WHERE gateway = ? AND state = 'waiting' "
        "AND chat = ? AND thread = ? ORDER BY id",
        (gateway, place.chat, place.thread),
    )
    return [ReceivedMessage(id, Incoming.from_json(json.loads(data)), state) for id, data, state in rows]


def places_with_mail(c: Connection, gateway: str) -> list[Place]:
    """Places where something waits or was begun."""
    rows = c.execute(
        "SELECT DISTINCT chat, thread FROM received WHERE gateway = ? AND state != 'done'", (gateway,)
    )
    return [Place(chat, thread) for chat, thread in rows]


def hand_over(c: Connection, id: int, session: str, text: str) -> None:
    """Note that a session is about to get a message."""
    c.execute(
        "UPDATE received SET state = 'handed', session = ?, text = ? WHERE id = ? AND state = 'waiting'",
        (session, storable(text), id),
    )


def handed_messages(c: Connection, gateway: str, place: Place, session: str) -> list[tuple[int, str]]:
    """Row and text of each message that a session got from a place and has not stored."""
    rows = c.execute(
        "SELECT id, text FROM received WHERE gateway = ? AND chat = ? AND thread = ? AND session = ? "
        "AND state = 'handed' AND node IS NULL ORDER BY id",
        (gateway, place.chat, place.thread, session),
    )
    return rows.fetchall()


def wait_again(c: Connection, ids: Sequence[int]) -> None:
    """Let messages wait that a session could not store."""
    c.executemany(
        "UPDATE received SET state = 'waiting' WHERE id = ? AND state = 'handed' AND node IS NULL",
        [(each,) for each in ids],
    )


def mark_done(c: Connection, id: int) -> None:
    """A message needs no more."""
    c.execute("UPDATE received SET state = 'done' WHERE id = ?", (id,))


def has_taken_message(c: Connection, gateway: str, session: str) -> bool:
    """Whether a message of the session has become a node whose turn is not known to be over."""
    row = c.execute(
        "SELECT 1 FROM received WHERE gateway = ? AND session = ? AND state = 'taken' LIMIT 1",
        (gateway, session),
    ).fetchone()
    return row is not None


def turn_over(c: Connection, session: str, node: int) -> None:
    """The turns of what was taken are over, up to a node: the next message may have begun another one."""
    c.execute(
        "UPDATE received SET state = 'done' WHERE session = ? AND state = 'taken' AND node <= ?",
        (session, node),
    )


def is_from(c: Connection, gateway: str, place: Place, node: int) -> bool:
    """Whether a node is a message that came from a place."""
    row = c.execute(
        "SELECT 1 FROM received WHERE node = ? AND gateway = ? AND chat = ? AND thread = ?",
        (node, gateway, place.chat, place.thread),
    ).fetchone()
    return row is not None


# Places


def bind(c: Connection, gateway: str, place: Place, session: str, told: int, group: bool, now: float) -> None:
    """Let a place talk to a session, of which it knows everything up to a node."""
    c.execute(
        "REPLACE INTO gateway_places VALUES (?, ?, ?, ?, ?, ?, ?)",
        (gateway, place.chat, place.thread, session, told, int(group), now),
    )


def unbind(c: Connection, gateway: str, place: Place) -> None:
    """Let a place talk to none."""
    c.execute(
        "DELETE FROM gateway_places WHERE gateway = ? AND chat = ? AND thread = ?",
        (gateway, place.chat, place.thread),
    )


def bound(c: Connection, gateway: str, place: Place) -> BoundPlace | None:
    """What a place talks to."""
    row = c.execute(
        "SELECT session, told, is_group FROM gateway_places WHERE gateway = ? AND chat = ? AND thread = ?",
        (gateway, place.chat, place.thread),
    ).fetchone()
    return None if row is None else BoundPlace(place, row[0], row[1], bool(row[2]))


def places(c: Connection, gateway: str) -> list[BoundPlace]:
    """All places of a gateway, those used last first."""
    rows = c.execute(
        "SELECT chat, thread, session, told, is_group FROM gateway_places WHERE gateway = ? "
        "ORDER BY used DESC",
        (gateway,),
    )
    return [BoundPlace(Place(chat, thread), s, told, bool(group)) for chat, thread, s, told, group in rows]


def places_of(c: Connection, session: str) -> list[tuple[str, BoundPlace]]:
    """Gateways and places that talk to a session."""
    rows = c.execute(
        "SELECT gateway, chat, thread, told, is_group FROM gateway_places WHERE session = ?", (session,)
    )
    return [(g, BoundPlace(Place(chat, thread), session, told, bool(b))) for g, chat, thread, told, b in rows]


def chat_moved(c: Connection, gateway: str, old: str, new: str) -> None:
    """A chat goes on under another id, with its sessions and what waits on both sides."""
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


def deliver(
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
    """Let something be sent; its row."""
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


def tell(
    c: Connection,
    gateway: str,
    bound_place: BoundPlace,
    node: int,
    bodies: Sequence[Mapping[str, Any]],
    now: float,
) -> bool:
    """Let the text of a node be delivered, once: False if it was.

    A draft that shows the beginning of it becomes the first message.
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
        deliver(c, gateway, place, "text", body, now, session=bound_place.session, node=node)
    return True


def due_deliveries(c: Connection, gateway: str, now: float) -> list[Delivery]:
    """The first thing that each place waits for, unless its time has not come."""
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
    """One of them."""
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
    """A receipt: it is there, under this id. What no longer says `body` still waits."""
    told = None if body is None else storable(json.dumps(body))
    c.execute(
        "UPDATE deliveries SET message = ?, state = CASE WHEN state = 'waiting' AND (? IS NULL OR body = ?) "
        "THEN 'sent' ELSE state END, problem = '' WHERE id = ?",
        (message, told, told, id),
    )


def waiting_files(c: Connection, gateway: str) -> list[str]:
    """Paths of the copies of files that wait to be sent."""
    rows = c.execute(
        "SELECT json_extract(body, '$.path') FROM deliveries WHERE gateway = ? AND kind = 'file' "
        "AND state = 'waiting'",
        (gateway,),
    )
    return [path for (path,) in rows]


def send_anew(c: Connection, id: int) -> None:
    """The message it was to change is gone."""
    c.execute("UPDATE deliveries SET message = '' WHERE id = ?", (id,))


def put_off(c: Connection, each: Delivery, now: float, problem: str, wait: float | None = None) -> None:
    """Try again later; with `wait` (seconds) it was not the fault of this one."""
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
    """It will never be delivered."""
    c.execute("UPDATE deliveries SET state = 'failed', problem = ? WHERE id = ?", (problem, id))


def draft_of(c: Connection, gateway: str, place: Place, session: str) -> int:
    """The newest draft of a place that is there, so that what follows takes its place; 0 for none."""
    row = c.execute(
        "SELECT id FROM deliveries WHERE gateway = ? AND state = 'draft' AND chat = ? AND thread = ? "
        "AND session = ? AND message != '' ORDER BY id DESC LIMIT 1",
        (gateway, place.chat, place.thread, session),
    ).fetchone()
    return row[0] if row else 0


def drop_drafts(c: Connection, gateway: str, place: Place, session: str) -> None:
    """What was shown while a turn ran stays as it is: no later answer takes its place."""
    c.execute(
        "UPDATE deliveries SET state = 'sent' WHERE gateway = ? AND state = 'draft' AND chat = ? "
        "AND thread = ? AND session = ?",
        (gateway, place.chat, place.thread, session),
    )


def change(c: Connection, id: int, body: Mapping[str, Any]) -> None:
    """Let something that was sent say something else."""
    c.execute(
        "UPDATE deliveries SET body = ?, state = 'waiting', retry = 0, tries = 0 WHERE id = ?",
        (storable(json.dumps(body)), id),
    )


def open_asks(c: Connection, gateway: str, session: str) -> list[Delivery]:
    """Questions of a session that were put to chats of a gateway and are not over, oldest first."""
    rows = c.execute(
        "SELECT id FROM deliveries WHERE session = ? AND kind = 'ask' AND gateway = ? "
        "AND json_extract(body, '$.open') ORDER BY id",
        (session, gateway),
    ).fetchall()
    found = (delivery(c, id) for (id,) in rows)
    return [each for each in found if each is not None]


# How it stands


def note_state(c: Connection, gateway: str, state: str, who: str, problem: str, now: float) -> None:
    """How a gateway is, for `hermes gateway status`."""
    c.execute("REPLACE INTO gateway_states VALUES (?, ?, ?, ?, ?)", (gateway, state, who, problem, now))


def statuses(c: Connection, names: Sequence[str]) -> list[GatewayStatus]:
    """How these gateways stand."""
    rows = c.execute("SELECT gateway, state, who, problem, at FROM gateway_states")
    known = {name: (state, who, problem, at) for name, state, who, problem, at in rows}
    return [
        GatewayStatus(name, *known.get(name, ("stopped", "", "", 0.0)), *counts(c, name)) for name in names
    ]


def counts(c: Connection, gateway: str) -> tuple[int, int, int]:
    """Messages that wait to be worked on, to be sent, and those that could not be sent."""
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
