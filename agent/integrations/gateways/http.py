"""HTTP for platforms that are spoken to directly: bounded answers, no redirects, faults as `GatewayError`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    GatewayError,
    RateLimitedError,
    UndeliverableError,
)
from tools.text.words import one_line

if TYPE_CHECKING:
    import httpx2

    HttpClient = httpx2.AsyncClient

ANSWER = 5_000_000
"""Bytes of an answer that is no file."""


def http_client(seconds: float = 60.0) -> httpx2.AsyncClient:
    """A client; its owner closes it. Imports its package, so it belongs into a thread the first time."""
    import httpx2

    return httpx2.AsyncClient(timeout=httpx2.Timeout(seconds, connect=10.0), follow_redirects=False)


@asynccontextmanager
async def talking(title: str) -> AsyncIterator[None]:
    """Faults of the connection as `GatewayError`."""
    import httpx2

    try:
        yield
    except httpx2.HTTPError as error:
        raise GatewayError(f"{title} cannot be reached ({type(error).__name__}).") from error


async def _received(
    client: httpx2.AsyncClient, request: httpx2.Request, most: int, title: str, beyond: GatewayError
) -> tuple[httpx2.Response, bytes]:
    """An answer and its body. Raises `beyond` where that has more than `most` bytes."""
    async with talking(title):
        response = await client.send(request, stream=True)
        try:
            data = bytearray()
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > most:
                    raise beyond
        finally:
            await response.aclose()
    return response, bytes(data)


async def bounded(client: httpx2.AsyncClient, request: httpx2.Request, most: int, title: str) -> bytes:
    """The body of an answer. Raises `UndeliverableError` beyond `most` bytes, and what `checked` raises."""
    beyond = UndeliverableError(f"The file is larger than {most:,} bytes.")
    response, data = await _received(client, request, most, title, beyond)
    checked(response.status_code, response.headers, data, title)
    return data


async def json_call(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    title: str,
    *,
    body: Any = None,
    raw: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """A JSON request, or one whose bytes are `raw`, and its answer; None where it is empty.

    Raises `GatewayError`.
    """
    sent = raw if body is None else json.dumps(body, ensure_ascii=False).encode()
    head = {"Content-Type": "application/json", **(headers or {})}
    data = await bounded(client, client.build_request(method, url, content=sent, headers=head), ANSWER, title)
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise GatewayError(f"{title} answers something else than JSON; check its api_url.") from None


async def answer_of(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    title: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of an answer, whatever the status is.

    The address is never told, as it may hold a token.
    Raises `GatewayError`, and `ConfigError` for what can be no request.
    """
    import httpx2

    try:
        request = client.build_request(method, url, json=body, headers=dict(headers or {}))
    except (httpx2.InvalidURL, ValueError):
        raise ConfigError(f"Address or token of {title} cannot be part of a request.") from None
    beyond = GatewayError(f"{title} answers far too much; check its api_url.")
    response, data = await _received(client, request, ANSWER, title, beyond)
    return response.status_code, response.headers, data


def checked(status: int, headers: Mapping[str, str], body: bytes, title: str) -> None:
    """Raise what a status means, with the platform's own words."""
    if status < 300:
        return
    said = one_line(body[:300].decode("utf-8", "replace"))
    if status == 429:
        raise RateLimitedError(_seconds(headers.get("retry-after", ""), body))
    if status == 401:
        raise BadCredentialsError(f"{title} does not take the token; set it again.")
    if 400 <= status < 500 and status not in (408, 425):
        raise UndeliverableError(f"{title} refuses with {status}: {said}")
    raise GatewayError(f"{title} answers {status}: {said}")


def _seconds(header: str, body: bytes) -> float:
    """How long to wait, by the header or, as Matrix tells it, by the body."""
    try:
        told = float(header or json.loads(body)["retry_after_ms"] / 1_000)
    except (ValueError, KeyError, TypeError, RecursionError):
        told = 5.0
    return min(max(told, 0.1), 3_600.0)
