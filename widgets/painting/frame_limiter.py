"""Limits how often something is painted: at once after a pause, and not again before a while has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class FrameLimiter:
    """Calls `paint` soon after it is asked to, however often it is asked until then.

    The first picture after a pause is painted in the same turn of the event loop, the next one begins
    `rest` seconds after it began; `paint` returns how long that is. What it raises goes to `fail`.
    Cheaper than a timer of Textual's, which is a task and several messages for each picture.
    """

    def __init__(self, paint: Callable[[], float], fail: Callable[[Exception], object]) -> None:
        self._paint = paint
        self._fail = fail
        self._due = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether `paint` was asked for and has not been called yet."""
        return self._waiting is not None

    def soon(self) -> None:
        """Paint as soon as it may be."""
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_at(max(self._due, loop.time()), self._run)

    def stop(self) -> None:
        """Forget what was asked for."""
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
