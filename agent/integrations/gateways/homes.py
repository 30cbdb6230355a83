"""Places of messages that name a messenger and no chat. Functions on a connection."""

from __future__ import annotations

from sqlite3 import Connection

from agent.integrations.gateways.adapter import Place


def place_of(text: str) -> Place:
    """`CHAT` or `CHAT/THREAD` as settings and targets write it. Pure."""
    chat, _, thread = text.partition("/")
    return Place(chat, thread)


def home_of(c: Connection, gateway: str, setting: str) -> Place | None:
    """The chat of the settings, else that of whoever was paired last; None where there is neither."""
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
    """The surface of the chats that talk to a session, a group before all others; empty: there is none."""
    rows = c.execute(
        "SELECT gateway, is_group FROM gateway_places WHERE session = ? ORDER BY is_group DESC", (session,)
    ).fetchall()
    if not rows:
        return ""
    gateway, is_group = rows[0]
    return f"gateway.{gateway}.group" if is_group else f"gateway.{gateway}"
