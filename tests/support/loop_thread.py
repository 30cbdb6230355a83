"""An event loop in a thread of its own, in which something lives while tests call into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any


class LoopThread:
    """Runs until it is closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin something in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 120) -> Any:
        """Do something in the loop, and wait for it at most so long."""
        return self.begin(work).result(seconds)

    async def awaited(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The same from another event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
