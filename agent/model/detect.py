"""Detection of model servers on this machine, on their default ports."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agent.model.addresses import is_loopback

TIME_LIMIT = 0.3
"""Seconds that a server has to answer."""

LARGEST_ANSWER = 4 << 20
"""The maximum size of an answer in bytes: gateways list hundreds of models."""
_LONGEST_NAME = 200
_MOST_MODELS = 500

PORTS: Mapping[str, int] = {"ollama": 11434, "lmstudio": 1234, "llamacpp": 8080, "vllm": 8000}
"""The default port of each server, by the name of its built-in provider."""


@dataclass(frozen=True, slots=True)
class DetectedServer:
    """A server that answered with a list of models, possibly empty. `name` is the name of its provider."""

    name: str
    base_url: str
    models: tuple[str, ...]


async def detect(
    ports: Mapping[str, int] | Sequence[tuple[str, int]] = PORTS,
    *,
    host: str = "127.0.0.1",
    time_limit: float = TIME_LIMIT,
) -> tuple[DetectedServer, ...]:
    """Query all ports concurrently; return the servers that answer within `time_limit` seconds.

    Never raises.
    """
    asked = list(ports.items() if isinstance(ports, Mapping) else ports)
    found = await asyncio.gather(*(_ask(name, host, port, time_limit) for name, port in asked))
    return tuple(server for server in found if server is not None)


async def _ask(name: str, host: str, port: int, time_limit: float) -> DetectedServer | None:
    try:
        async with asyncio.timeout(time_limit):
            body = await _get(host, port, "/v1/models", {})
        models = names_in(json.loads(body))
    except (OSError, ValueError, EOFError, OverflowError, RecursionError, asyncio.LimitOverrunError):
        return None
    return None if models is None else DetectedServer(name, f"http://{host}:{port}/v1", models)


async def fetch_json(url: str, headers: Mapping[str, str]) -> Any:
    """Return the JSON answer of an address as data.

    Raises `ValueError` for anything but JSON with status 200, `OSError` or `EOFError` without a complete
    answer.
    """
    parts = urlsplit(url)
    try:
        if parts.scheme == "http":
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            return json.loads(await _get(parts.hostname or "", parts.port or 80, target, headers))
        return json.loads(await _get_securely(url, headers))
    except (OverflowError, RecursionError, asyncio.LimitOverrunError) as error:
        raise ValueError(str(error)) from None


async def _get_securely(url: str, headers: Mapping[str, str]) -> bytes:
    httpx2 = await asyncio.to_thread(importlib.import_module, "httpx2")
    body = b""
    try:
        async with (
            httpx2.AsyncClient(follow_redirects=False, trust_env=not is_loopback(url)) as client,
            client.stream("GET", url, headers=dict(headers)) as response,
        ):
            if response.status_code != 200:
                raise ValueError("no list of models")
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise ValueError("too large")
    except httpx2.HTTPError as error:
        raise OSError(str(error)) from None
    return body


async def _get(host: str, port: int, target: str, headers: Mapping[str, str]) -> bytes:
    """Return the body of an answer. Raises `OSError` or `ValueError` for any failure or other status."""
    reader, writer = await asyncio.open_connection(host, port, limit=64 * 1024)
    try:
        asked = {"Host": f"{host}:{port}", "Accept": "application/json", **headers, "Connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in asked.items())
        if not lines.isascii() or len(lines.splitlines()) != len(asked):
            raise ValueError("a header that cannot be sent")
        writer.write(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = head[0].split(maxsplit=2)
        if len(status) < 2 or not status[0].startswith("HTTP/"):
            raise ValueError("no HTTP")
        if status[1] != "200":
            # A server that is still starting answers with an error.
            raise OSError(head[0]) if status[1] == "503" else ValueError(head[0])
        lines = (line.partition(":") for line in head[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        return await _body(reader, headers)
    finally:
        writer.transport.abort()


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        pieces: list[bytes] = []
        while length := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            if length < 0 or length + sum(map(len, pieces)) > LARGEST_ANSWER:
                raise ValueError("too large")
            pieces.append(await reader.readexactly(length))
            await reader.readexactly(2)
        return b"".join(pieces)
    if "content-length" in headers:
        length = int(headers["content-length"])
        if not 0 <= length <= LARGEST_ANSWER:
            raise ValueError("too large")
        return await reader.readexactly(length)
    body = b""
    while piece := await reader.read(64 * 1024):
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise ValueError("too large")
    return body


def names_in(answer: Any) -> tuple[str, ...] | None:
    """Return the names in a list from `/v1/models`, at most `_MOST_MODELS`; None for other data. Pure."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    if listed is None and isinstance(answer, dict) and answer.get("object") == "list":
        listed = []
    if not isinstance(listed, list):
        return None
    names = [item.get("id") for item in listed if isinstance(item, dict)]
    plain = [name for name in names if isinstance(name, str) and _is_plain(name)]
    return tuple(dict.fromkeys(plain))[:_MOST_MODELS]


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable()
