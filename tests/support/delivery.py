"""Sending a scripted reply over a connection, with all its misfortunes."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from tests.support.replies import Reply


@dataclass(slots=True)
class Recorded:
    """One request as it came in. `body` is None when it was not JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    body: Any = None
    query: str = ""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed the connection before the answer was complete."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]


class Delivery:
    """Sends one reply, with all its misfortunes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Recorded) -> None:
        self._reader = reader
        self._writer = writer
        self._request = request

    async def send(self, reply: Reply, body: bytes) -> bool:
        """Whether the connection can take another request."""
        if reply.stall_at is None:
            await self._hold(reply)
        if reply.delay:
            await self._pause(reply.delay)
        cut = None if reply.cut_at is None else _position(reply.cut_at, body)
        stall = None if reply.stall_at is None else _position(reply.stall_at, body)
        if cut == 0 and reply.cut != "clean":
            self._break(reply.cut)
            return False
        head = self._head(reply)
        sent = 0
        for end in _boundaries(reply, body, cut, stall):
            piece = body[sent:end]
            if piece:
                self._writer.write(head + b"%x\r\n%b\r\n" % (len(piece), piece))
                head = b""
                await self._writer.drain()
            sent = end
            if sent == stall:
                self._writer.write(head)
                head = b""
                await self._hold(reply)
                await self._pause(reply.stall)
            if sent == cut:
                break
            if reply.pace and sent < len(body):
                await self._pause(reply.pace)
            elif reply.split:
                await asyncio.sleep(0)
        if cut is not None and reply.cut != "clean":
            self._break(reply.cut)
            return False
        self._writer.write(head + b"0\r\n\r\n")
        await self._writer.drain()
        return True

    def _head(self, reply: Reply) -> bytes:
        asked_stream = bool(isinstance(self._request.body, dict) and self._request.body.get("stream"))
        is_stream = asked_stream and reply.stream and reply.body is None
        headers = {
            "content-type": reply.content_type or ("text/event-stream" if is_stream else "application/json"),
            "transfer-encoding": "chunked",
            "date": formatdate(usegmt=True),
            **reply.headers,
        }
        lines = [
            f"HTTP/1.1 {reply.status} Scripted",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def _hold(self, reply: Reply) -> None:
        while reply.until is not None and not reply.until():
            await self._pause(0.01)

    async def _pause(self, seconds: float) -> None:
        """Wait, and notice when the client hangs up meanwhile."""
        try:
            early = await asyncio.wait_for(self._reader.read(1), seconds)
        except TimeoutError:
            return
        if not early:
            raise ConnectionResetError("the client closed the connection")

    def _break(self, how: str) -> None:
        if how == "rst":
            linger = struct.pack("ii", 1, 0)
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._writer.transport.abort()
        else:
            self._writer.close()


def _position(offset: int, body: bytes) -> int:
    return max(0, len(body) + offset) if offset < 0 else min(offset, len(body))


def _boundaries(reply: Reply, body: bytes, cut: int | None, stall: int | None) -> list[int]:
    """Where the body is divided into HTTP chunks: offsets in ascending order, the last one its length."""
    ends = {len(body)}
    if reply.split:
        ends.update(range(reply.split, len(body), reply.split))
    if reply.pace:
        blank = (reply.wire.newline * 2).encode()
        position = 0
        while (position := body.find(blank, position)) >= 0:
            position += len(blank)
            ends.add(position)
    ends.update(offset for offset in (cut, stall) if offset is not None)
    return sorted(ends)
