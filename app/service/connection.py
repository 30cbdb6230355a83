"""One connection: what of a request comes in before the application hears of it.

A head of a request has at most 16 KB (431) and 10 seconds (408). A body that nobody wants any more
ends the connection. All else is uvicorn's, with the parser that takes nothing doubtful (h11).
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0
MOST_CONNECTIONS = 1_000
"""Connections of everybody together."""
_SENTENCES = {
    400: b'{"error": "This is no request of HTTP."}',
    408: b'{"error": "The head of the request took too long."}',
    431: b'{"error": "The head of the request is too large."}',
    503: b'{"error": "Too many connections; wait a little."}',
}
_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class GuardedProtocol(H11Protocol):
    """uvicorn's connection with limits on the head of each request."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head = 0
        """Bytes of the head that is coming in."""
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._turn_away(503)
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to a head."""
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            if not self._head:
                self._wait()
            self._head += len(data)
            if self._head > HEAD_BYTES and _head_end(data, self._head) > HEAD_BYTES:
                self._turn_away(431)
                return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self._is_upgraded():
            self._head = 0
            self._stop_waiting()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Only a request that reads, and brings no body, becomes a socket."""
        names = {name for name, _ in self.headers}
        if event.method != b"GET" or names & {b"content-length", b"transfer-encoding"}:
            self._turn_away(400)
            return
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """What is left of a body that nobody read is not waited for."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no request; what is too large for the parser has its own word."""
        self._turn_away(431 if self._head > HEAD_BYTES else 400)

    def _is_upgraded(self) -> bool:
        return self.transport.get_protocol() is not self

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._turn_away, 408)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _turn_away(self, status: int) -> None:
        self._stop_waiting()
        if self.transport.is_closing() or self._is_upgraded():
            return
        body = _SENTENCES[status]
        if self.cycle is not None and not self.cycle.response_complete:
            # The application is still at it; what it has to say comes too late.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\n" % (status, _REASONS[status])
            self.transport.write(head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
        self.transport.close()


def _head_end(data: bytes, total: int) -> int:
    """How many bytes the head has so far: up to its end if that is in the last piece. Pure."""
    end = data.find(b"\r\n\r\n")
    return total if end < 0 else total - len(data) + end
