"""The browsers of a session, one a task: started when first needed, closed when nobody uses them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tools.browser.host import BrowserHost
from tools.results import ToolError

if TYPE_CHECKING:
    from tools.browser.session import BrowserSession

IDLE = 120.0
"""Seconds without use after which a browser is closed."""
MOST = 4
"""Browsers that run at once."""


class Browsers:
    """Hands out the browser of a task. `host` is None where there can be none."""

    def __init__(self, host: BrowserHost | None, *, idle: float = IDLE, reason: str = "") -> None:
        self.host = host
        self._reason = reason
        self._idle = idle
        self._open: dict[str, BrowserSession] = {}
        self._lock = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None

    def running(self, task: str = "") -> BrowserSession | None:
        """The browser of a task, or any of them, if one runs."""
        if task:
            return self._open.get(task)
        return next(reversed(self._open.values()), None) if self._open else None

    async def session(self, task: str) -> tuple[BrowserSession, str]:
        """The browser of a task, started if need be, and what is to be said of that. Raises `ToolError`."""
        from tools.browser.session import open_session

        if self.host is None:
            raise ToolError(self._reason or "There is no browser here.")
        async with self._lock:
            session, note = self._open.get(task), ""
            if session is not None and not session.is_alive:
                del self._open[task]
                await session.close()
                session, note = None, "The browser had crashed; this is a new one, and its pages are gone."
            if session is None:
                if len(self._open) >= MOST:
                    oldest = min(self._open, key=lambda each: self._open[each].used)
                    if self._open[oldest].lock.locked():
                        raise ToolError(f"{MOST} browsers run already; close one with browser_close.")
                    await self._open.pop(oldest).close()
                session = self._open[task] = await open_session(self.host)
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._close_idle())
            return session, note

    async def close(self, task: str) -> bool:
        """Close the browser of a task; whether one ran."""
        async with self._lock:
            session = self._open.pop(task, None)
            if session is None:
                return False
            await session.close()
            return True

    async def aclose(self) -> None:
        """Close all of them."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        async with self._lock:
            while self._open:
                await self._open.popitem()[1].close()

    async def _close_idle(self) -> None:
        while self._open:
            await asyncio.sleep(min(5.0, max(self._idle / 4, 0.05)))
            async with self._lock:
                now = time.monotonic()
                for task, session in list(self._open.items()):
                    if not session.lock.locked() and now - session.used >= self._idle:
                        del self._open[task]
                        await session.close()
