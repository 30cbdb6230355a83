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
    told: str = await _asked(service, {"move": {"session": session, "to": where}})
    return told


async def check_move(service: Path, where: str) -> None:
    """See whether the service lets a session move there. Raises `HermesError` with the reason if not."""
    await _asked(service, {"check_move": where})


async def _asked(service: Path, question: Mapping[str, Any]) -> Any:
    link = Link(_unheard, lambda _how: None)
    await link.connect(service)
    try:
        return decode(await link.ask(lambda number: {"call": number, **question}))
    finally:
        await link.close()


def _unheard(_frame: Mapping[str, Any]) -> None:
    """No session is open on this connection."""
