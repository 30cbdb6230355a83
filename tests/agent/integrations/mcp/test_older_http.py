"""Servers of before 2025-03-26, which speak HTTP with SSE, found by their address alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agent.integrations.mcp.host.results import CallFaultError
from tests.agent.integrations.mcp.test_connections import connected

HEAD = "HTTP/1.1 {}\r\nConnection: close\r\nContent-Type: {}\r\n\r\n"
INFO = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}


class OldServer:
    """Answers POST to its address with `status`; a GET opens the stream, if it has one."""

    def __init__(self, status: str, has_stream: bool = True) -> None:
        self.status, self.has_stream = status, has_stream
        self.requests: list[str] = []
        self._stream: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        self.requests.append(" ".join(head.split(" ", 2)[:2]))
        length = next(
            (int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0
        )
        body = await reader.readexactly(length)
        if head.startswith("get /sse ") and self.has_stream:
            writer.write(HEAD.format("200 OK", "text/event-stream").encode())
            writer.write(b"event: endpoint\ndata: /messages?id=1\n\n")
            await writer.drain()
            self._stream = writer
            return
        told = head.startswith("post /messages")
        writer.write(HEAD.format("202 Accepted" if told else self.status, "text/plain").encode())
        writer.close()
        request = json.loads(body) if told else {}
        if "id" in request and self._stream is not None:
            result = {"jsonrpc": "2.0", "id": request["id"], "result": INFO}
            self._stream.write(f"event: message\ndata: {json.dumps(result)}\n\n".encode())
            await self._stream.drain()

    async def address(self) -> str:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/sse"

    def close(self) -> None:
        self._server.close()
        if self._stream is not None:
            self._stream.close()


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
async def test_an_older_server_is_spoken_to_over_sse(tmp_path: Path, status: str) -> None:
    server = OldServer(status)
    address = await server.address()
    try:
        async with connected(tmp_path, "", transport="http", url=address):
            assert server.requests[0] == "post /sse" and "get /sse" in server.requests
            assert "post /messages?id=1" in server.requests
    finally:
        server.close()


@pytest.mark.parametrize(
    ("status", "looks"), [("405 Method Not Allowed", True), ("500 Internal Server Error", False)]
)
async def test_a_server_that_has_no_stream_either_gives_the_first_reason(
    tmp_path: Path, status: str, looks: bool
) -> None:
    server = OldServer(status, has_stream=False)
    address = await server.address()
    try:
        with pytest.raises(CallFaultError, match="error response"):
            async with connected(tmp_path, "", transport="http", url=address):
                pass
        assert ("get /sse" in server.requests) == looks
    finally:
        server.close()
