"""Tasks that own sockets: these are closed when their task ends, be it before its first line."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any


class SocketTasks:
    """Tasks of one loop, kept until they have ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], *owned: socket.socket) -> asyncio.Task[None]:
        """Do `work` in the running loop and close what it owns a moment after it has ended, if it did not.

        A task that is cancelled before its first step never enters the `with` it begins with.
        """

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            for each in owned:
                each.close()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)
        return task

    def cancel(self) -> None:
        """Break all of them off."""
        for each in self._tasks:
            each.cancel()
