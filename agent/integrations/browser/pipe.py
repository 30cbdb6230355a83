"""The DevTools protocol over a pair of pipes: nothing listens, so nobody else can drive the browser."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

_LARGEST = 1 << 29
"""Bytes of one message."""


class PipeTransport:
    """`reading` and `writing` are descriptors that belong to it from now on; `open` before use."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._reader = asyncio.StreamReader(limit=_LARGEST)
        self._transports: list[asyncio.BaseTransport] = []
        self._out: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Connect both ends to the loop."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        into, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(self._reading, "rb", 0))
        out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(self._writing, "wb", 0))
        self._out = out
        self._transports = [into, out]

    def send(self, message: bytes) -> None:
        if self._out is None or self._out.is_closing():
            raise BrokenPipeError("the browser has gone")
        self._out.write(message + b"\0")

    async def receive(self) -> bytes:
        try:
            return (await self._reader.readuntil(b"\0"))[:-1]
        except asyncio.IncompleteReadError as error:
            raise EOFError from error
        except asyncio.LimitOverrunError as error:
            raise EOFError("a message of the browser is too long") from error

    def close(self) -> None:
        """Close both ends, which also ends the browser."""
        for each in self._transports:
            with suppress(Exception):
                each.close()
