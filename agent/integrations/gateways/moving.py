"""A session moves: your chat at a messenger goes on with it, and those before do not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from sqlite3 import Connection

from agent.errors import ConfigError
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import Place
from agent.integrations.gateways.outgoing import ChatTarget

HERE = ("terminal", "page", "here")
"""Words for the places that need no chat: every head of the service has the session anyway."""


@dataclass(frozen=True, slots=True)
class SessionMove:
    """What became of a move: places that have the session no more, and the one that has it now."""

    left: tuple[tuple[str, Place], ...]
    to: ChatTarget | None


def move(c: Connection, session: str, title: str, end: int, to: ChatTarget | None) -> SessionMove:
    """Bind the chat, on a connection, and tell it and those before.

    `end` is the last node that the chat need not be told.
    Without `to` no chat has the session any more. Raises `ConfigError` for a group, which others read.
    """
    now, left = time.time(), list[tuple[str, Place]]()
    if to is not None:
        refuse_group(c, to)
    words = f"It goes on at {to.gateway}." if to is not None else back_words(session)
    for gateway, each in book.places_of(c, session):
        if to is not None and (gateway, each.place) == (to.gateway, to.place):
            continue
        book.unbind(c, gateway, each.place)
        book.deliver(c, gateway, each.place, "text", {"text": words}, now)
        left.append((gateway, each.place))
    if to is not None:
        book.bind(c, to.gateway, to.place, session, end, False, now)
        body = {"text": f"Here goes on: {title or session}"}
        book.deliver(c, to.gateway, to.place, "text", body, now)
    return SessionMove(tuple(left), to)


def refuse_group(c: Connection, to: ChatTarget) -> None:
    """Raises `ConfigError` for a chat in which others read."""
    there = book.bound(c, to.gateway, to.place)
    if there is not None and there.is_group:
        raise ConfigError("A session moves into a chat of your own, not where others read along.")


def back_words(session: str) -> str:
    """What a chat is told when its session goes on in the terminal."""
    back = f"`hermes --attach {session}`"
    return f"It goes on in the terminal ({back}) and on the page; /resume brings it back."
