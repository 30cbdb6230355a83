"""People who may write to Hermes: those in the settings, and those whose pairing code was confirmed.

Unknown people who write in a private chat get a code, at most one per hour, and nothing else. `hermes gateway
pair CODE` admits such a person. Only a hash of the code is stored.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Literal

from agent.core.home import PRIVATE_FILE
from agent.errors import ConfigError
from agent.integrations.gateways.adapter import Place

ChatScope = Literal["", "look", "talk", "approve"]
SCOPES: tuple[ChatScope, ...] = ("", "look", "talk", "approve")
LIFE = 3_600.0
"""Seconds for which a code is valid and its owner gets no other."""
PENDING = 50
"""The maximum number of strangers per gateway with a valid code; others get no reply."""
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"


@dataclass(frozen=True, slots=True)
class Person:
    """A person who wrote to a gateway."""

    gateway: str
    id: str
    name: str
    chat: str
    scope: ChatScope
    at: float


def may(held: ChatScope, needed: ChatScope) -> bool:
    """Return whether the scope `held` includes the scope `needed`."""
    return SCOPES.index(held) >= SCOPES.index(needed)


def scope_of(
    c: Connection, gateway: str, person: str, allow: Sequence[str], approve: Sequence[str]
) -> ChatScope:
    """Return the scope of a person, from the settings or from pairing; empty if unknown."""
    if person in approve:
        return "approve"
    row = c.execute(
        "SELECT scope FROM gateway_people WHERE gateway = ? AND person = ?", (gateway, person)
    ).fetchone()
    paired: ChatScope = row[0] if row is not None and row[0] in SCOPES else ""
    return "talk" if person in allow and not may(paired, "talk") else paired


def new_code(c: Connection, gateway: str, person: str, name: str, chat: str, now: float) -> str:
    """Return a new pairing code for an unknown person, and store its hash.

    The text is empty if the person is already listed, or if too many codes are pending.
    """
    c.execute("DELETE FROM gateway_people WHERE scope = '' AND expires < ?", (now,))
    row = c.execute(
        "SELECT told FROM gateway_people WHERE gateway = ? AND person = ?", (gateway, person)
    ).fetchone()
    if row is not None:
        return ""
    (pending,) = c.execute(
        "SELECT count(*) FROM gateway_people WHERE gateway = ? AND scope = ''", (gateway,)
    ).fetchone()
    if pending >= PENDING:
        return ""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(10))
    c.execute(
        "INSERT INTO gateway_people VALUES (?, ?, ?, ?, '', ?, ?, ?, ?)",
        (gateway, person, name[:60], chat, _hash(letters), now + LIFE, now, now),
    )
    return f"{letters[:5]}-{letters[5:]}"


def pair(c: Connection, code: str, scope: ChatScope, now: float) -> Person:
    """Admit the person who holds a code, with the given scope; return the person. Raises `ConfigError`."""
    letters = "".join(each for each in code.upper() if each.isalnum())
    row = c.execute(
        "SELECT gateway, person FROM gateway_people WHERE scope = '' AND code = ? AND expires >= ?",
        (_hash(letters), now),
    ).fetchone()
    if row is None:
        raise ConfigError("Nobody holds this code, or it has expired; let them write again for a new one.")
    c.execute(
        "UPDATE gateway_people SET scope = ?, code = '', at = ? WHERE gateway = ? AND person = ?",
        (scope, now, *row),
    )
    return next(each for each in people(c) if (each.gateway, each.id) == tuple(row))


def people(c: Connection) -> list[Person]:
    """Return everyone who wrote, paired or not, oldest entry first."""
    rows = c.execute(
        "SELECT gateway, person, name, chat, scope, at FROM gateway_people ORDER BY at, gateway, person"
    )
    return [Person(*row) for row in rows]


def revoke(c: Connection, id: str) -> Person:
    """Stop admitting a person, given by id, `GATEWAY:ID` or name; return the person. Raises `ConfigError`."""
    found = [
        each for each in people(c) if each.scope and id in (each.id, f"{each.gateway}:{each.id}", each.name)
    ]
    if len(found) != 1:
        what = "is more than one person; write GATEWAY:ID" if found else "was not paired"
        raise ConfigError(f"{id[:60]!r} {what}; `hermes gateway list` shows them.")
    c.execute("DELETE FROM gateway_people WHERE gateway = ? AND person = ?", (found[0].gateway, found[0].id))
    return found[0]


def _hash(letters: str) -> str:
    return hashlib.sha256(letters.encode()).hexdigest()


def place_of(text: str) -> Place:
    """Parse a place from `CHAT` or `CHAT/THREAD`, as in settings and targets. Pure."""
    chat, _, thread = text.partition("/")
    return Place(chat, thread)


def home_of(c: Connection, gateway: str, setting: str) -> Place | None:
    """Return the chat named by the setting; without one that of the last paired person, or the last used
    private chat.

    Returns None if there is none of these.
    """
    if setting:
        return place_of(setting)
    row = c.execute(
        "SELECT chat FROM gateway_people WHERE gateway = ? AND scope != '' AND chat != '' "
        "ORDER BY at DESC LIMIT 1",
        (gateway,),
    ).fetchone()
    if row is None:
        row = c.execute(
            "SELECT chat FROM gateway_places WHERE gateway = ? AND is_group = 0 ORDER BY used DESC LIMIT 1",
            (gateway,),
        ).fetchone()
    return None if row is None else Place(row[0])


def surface_of(c: Connection, session: str) -> str:
    """Return the name that permission rules use for the chats connected to a session; empty if there are
    none.

    If one of them is a group, the result is that of the group.
    """
    rows = c.execute(
        "SELECT gateway, is_group FROM gateway_places WHERE session = ? ORDER BY is_group DESC", (session,)
    ).fetchall()
    if not rows:
        return ""
    gateway, is_group = rows[0]
    return f"gateway.{gateway}.group" if is_group else f"gateway.{gateway}"


def kept_place(path: Path) -> str:
    """Return the last stored position in a messenger's message stream; empty if none was stored."""
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def keep_place(path: Path, text: str) -> None:
    """Store the position in a messenger's message stream.

    After a crash the file has the old or the new position.
    """
    beside = path.with_name(f".{path.name}")
    beside.touch(PRIVATE_FILE)
    beside.write_text(text, "utf-8")
    beside.replace(path)
