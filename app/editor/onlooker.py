"""A session that another program works on, which the editor looks on at until it is free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import Home
from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.errors import HermesError
from app.editor.replay import replayed

log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two looks."""


def holder_of(session: str) -> str:
    """Who works on a session, in words; empty where nobody does. Raises `HermesError`."""
    lock = SessionLock(Home.locate().run, session)
    if lock.acquire():
        lock.release()
        return ""
    process = lock.holder()
    return f"process {process}" if process else "another program"


class Onlooker:
    """Shows what is stored of a session, then what comes to it."""

    def __init__(self, session: str, workspace: Path, send: Callable[[str, Any], Awaitable[None]]) -> None:
        self.id = session
        self.workspace = workspace
        self._send = send
        self._shown: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    async def look(self, *, show: bool) -> None:
        """Show what there is, unless the editor shows it by itself. Raises `HermesError`."""
        async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
            await self._news(store, show=show)

    def follow(self) -> None:
        """Show from now on what comes to it."""
        self._task = asyncio.create_task(self._follow())

    def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        try:
            async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
                while True:
                    await asyncio.sleep(EVERY)
                    await self._news(store, show=True)
        except (HermesError, ConnectionError):
            log.warning("a session is not followed any more", exc_info=True)

    async def _news(self, store: Store, *, show: bool) -> None:
        from tools.discovery import discover
        from tools.registry import registry

        head = (await store.heads(self.id))[0].name
        path = await store.path(self.id, head)
        new = [node for node in path if node.id not in self._shown]
        if not new:
            return
        self._shown.update(node.id for node in new)
        if show:
            await asyncio.to_thread(discover)
            # The calls of a message that was shown before are needed for their results.
            first = next(at for at, node in enumerate(path) if node.id == new[0].id)
            asked = [node for node in path[:first] if node.kind == "assistant"][-1:]
            known = len(list(replayed(asked, registry, self.workspace)))
            for update in list(replayed([*asked, *path[first:]], registry, self.workspace))[known:]:
                await self._send(self.id, update)
