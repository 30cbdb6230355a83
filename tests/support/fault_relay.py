"""A faulty way to a server over TCP: passes bytes on, and spoils the one piece it is told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

from tests.support.fault_proxy import HELD, NOISE, SWAPPED, Passing


class FaultRelay:
    """Stands before `port`. What one read gives counts as a message, both ways and over all connections."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._passing = Passing("", 0)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_killed = False
        self.port = 0

    def spoil(self, fault: str, at: int) -> None:
        """Begin to count anew."""
        self._passing = Passing(fault, at)
        self._is_killed = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._drop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_killed:
            writer.transport.abort()
            return
        to_server, from_client = await asyncio.open_connection("127.0.0.1", self._target)
        pairs = ((reader, from_client), (to_server, writer))
        self._writers |= {writer, from_client}
        for source, sink in pairs:
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                match self._passing.fate():
                    case "cut":
                        self._drop()
                        return
                    case "kill":
                        self._is_killed = True
                        self._drop()
                        return
                    case "half":
                        sink.write(data[: len(data) // 2])
                        await sink.drain()
                        self._drop()
                        return
                    case "delay":
                        await asyncio.sleep(HELD)
                    case "reorder":
                        await asyncio.sleep(SWAPPED)
                    case "garbage":
                        data = NOISE
                sink.write(data)
                await sink.drain()
        sink.close()

    def _drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
