"""Orders to the running service of a home, over its private socket, that are no commands of a session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.api.link import Link
from agent.api.wire import decode


async def move_session(service: Path, session: str, where: str) -> str:
    """Let your chat at a messenger go on with a session of the service; where it goes on, in words.

    `service` is its socket. Raises `HermesError`.
    """
    link = Link(_unheard, lambda _how: None)
    await link.connect(service)
    try:
        move = {"session": session, "to": where}
        told: str = decode(await link.ask(lambda number: {"call": number, "move": move}))
        return told
    finally:
        await link.close()


def _unheard(_frame: Mapping[str, Any]) -> None:
    """No session is open on this connection."""
