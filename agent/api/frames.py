"""Frames between a surface and its engine (`tools.kit.children`, `agent.api.wire.pack`)."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Mapping
from typing import Any

from agent.api.wire import WireError, pack
from tools.kit import children

LARGEST = 1 << 29
"""Bytes of a frame; a longer one is refused."""
HELD = 1_000_000
"""Bytes that wait for a surface that does not read; beyond them the engine waits too."""


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame; None at the end of the stream, whole or not. Raises `WireError`."""
    try:
        return await children.read_frame(reader, LARGEST)
    except children.FrameError as error:
        raise WireError(str(error)) from error


class Outlet:
    """Writes frames in order. What the other side does not take waits here, up to `HELD` bytes.

    Then `send` itself waits: an engine whose surface does not keep up reads no more from its model,
    as the surface would have to hold all of it.
    """

    def __init__(self, to: socket.socket) -> None:
        to.setblocking(False)
        self._to = to
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._watches = False
        self.broken = False
        """Whether nobody is there any more."""

    def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame as soon as the other side takes it. Raises `WireError` for what may not cross."""
        if self.broken:
            return
        self.queue(frame)
        while len(self._waiting) > HELD and not self.broken:
            select.select([], [self._to], [])
            self._write()

    @property
    def waiting(self) -> int:
        """Bytes that the other side has not taken yet."""
        return len(self._waiting)

    def queue(self, frame: Mapping[str, Any]) -> None:
        """Send what the other side takes now, and the rest later. Raises `WireError`."""
        self._waiting += pack(frame)
        self._write()

    def drop(self) -> None:
        """Close at once; nobody is there any more."""
        self.broken = True
        self._waiting.clear()
        self._stop_watching()
        self._to.close()

    def finish(self) -> None:
        """Send what still waits, however long the other side takes, and close."""
        while self._waiting and not self.broken:
            select.select([], [self._to], [])
            self._write()
        self._stop_watching()
        self._to.close()

    def _write(self) -> None:
        try:
            while self._waiting:
                sent = self._to.send(self._waiting)
                del self._waiting[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
            self._waiting.clear()
        if self._waiting and not self._watches:
            self._watches = True
            self._loop.add_writer(self._to, self._write)
        elif not self._waiting:
            self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watches:
            self._watches = False
            self._loop.remove_writer(self._to)
