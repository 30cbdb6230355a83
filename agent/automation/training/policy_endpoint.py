"""An address at which an engine asks weights in training: chat completions, on loopback, with a key."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from agent.errors import HermesError

PATH = "/v1/chat/completions"
_MOST_HEAD, _MOST_BODY = 65_536, 32_000_000

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""What a request body is answered with."""


@dataclass(frozen=True, slots=True)
class PolicyAddress:
    """Where the endpoint listens, and the key it wants."""

    base_url: str
    key: str


@asynccontextmanager
async def policy_endpoint(answer: Answer) -> AsyncIterator[PolicyAddress]:
    """Answer requests of this machine that bring the key, until left."""
    key = secrets.token_urlsafe(24)

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
                while await _exchanged(reader, writer, answer, key):
                    pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, limit=_MOST_HEAD)
    try:
        port = server.sockets[0].getsockname()[1]
        yield PolicyAddress(f"http://127.0.0.1:{port}/v1", key)
    finally:
        server.close()


async def _exchanged(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, key: str
) -> bool:
    """Answer one request; whether the connection stays."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or int(length) > _MOST_BODY:
        await _send(writer, 400, {"error": {"message": "A body of a known length is needed."}})
        return False
    body = await reader.readexactly(int(length))
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), key.encode()):
        await _send(writer, 401, {"error": {"message": "The key is wrong."}})
    elif lines[0].split(" ")[:2] != ["POST", PATH]:
        await _send(writer, 404, {"error": {"message": "There is no such path."}})
    else:
        try:
            await _send(writer, 200, await answer(json.loads(body)))
        except (HermesError, ValueError) as error:
            await _send(writer, 400, {"error": {"message": str(error)}})
    return True


async def _send(writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any]) -> None:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    writer.write(head.encode() + text)
    await writer.drain()
