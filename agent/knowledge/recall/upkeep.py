"""Upkeep of what recall searches, in the background: words first, then vectors."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.knowledge.recall.meaning import Meaning
    from agent.knowledge.recall.message_index import MessageIndex

log = logging.getLogger(__name__)

_PAUSE, _LONG_PAUSE = 2.0, 60.0
"""Seconds from something new to its place in the index, and until it is tried again after a fault."""

_REST, _SLICE = 0.002, 0.5
"""Seconds between two steps, in which others get their turn, and for which vectors are made before words
that are new meanwhile come first again."""


class Upkeep:
    """Indexes what is said soon after it was. Belongs to one event loop."""

    def __init__(self, index: MessageIndex, meaning: Meaning | None) -> None:
        self._index = index
        self._meaning = meaning
        self._task: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """Something may have been said: index it when there is time."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_up())
        self._stirred.set()

    async def close(self) -> None:
        """Stop; what is missing follows another time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _keep_up(self) -> None:
        while True:
            await self._stirred.wait()
            await asyncio.sleep(_PAUSE)
            self._stirred.clear()
            try:
                await self._index.catch_up(seconds=float("inf"), rest=_REST)
                await self._index.warm_up(rest=_REST)
                if self._meaning is not None:
                    await self._add_meaning(self._meaning)
            except HermesError:
                log.warning("the index of messages cannot be kept up", exc_info=True)
                await asyncio.sleep(_LONG_PAUSE)

    async def _add_meaning(self, meaning: Meaning) -> None:
        """Make vectors, a slice at least, until all are made or something new was said."""
        while not await meaning.catch_up(seconds=_SLICE, rest=_REST):
            if self._stirred.is_set():
                return
