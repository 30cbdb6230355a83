"""A limit on the paint rate: immediate after a pause, then at most one paint per interval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class FrameLimiter:
    """Calls `paint` soon after a request, once for any number of requests.

    The first paint after a pause runs in the same turn of the event loop. The next one starts `rest` seconds
    after it; `paint` returns that number. Errors of `paint` go to `fail`. This is cheaper than a Textual
    timer, which needs a task and several messages for each paint.
    """

    def __init__(self, paint: Callable[[], float], fail: Callable[[Exception], object]) -> None:
        self._paint = paint
        self._fail = fail
        self._due = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """True if `paint` was requested and has not run yet."""
        return self._waiting is not None

    def soon(self) -> None:
        """Request a paint at the earliest allowed time."""
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_at(max(self._due, loop.time()), self._run)

    def stop(self) -> None:
        """Cancel the pending request."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _run(self) -> None:
        self._waiting = None
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            rest = self._paint()
        except Exception as error:
            self._fail(error)
        else:
            ended = clock()
            # Painting is part of the rest, or pictures would be rarer the more there is on them; but at least
            # as much time as it takes is left to other work.
            self._due = max(began + rest, ended + (ended - began))
