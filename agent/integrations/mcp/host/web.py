"""Reaching a server over HTTP: its headers, its time, and no answer larger than a message may be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2

from agent.integrations.mcp.host.stdio import LARGEST_MESSAGE

_STREAM = "text/event-stream"


class TooLargeError(httpx2.HTTPError):
    """An answer had more bytes than a message may have."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._inner:
            count += len(chunk)
            if count > LARGEST_MESSAGE:
                raise TooLargeError(f"it sent a message of more than {LARGEST_MESSAGE // 1_000_000} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Streams of events have their limit per event; everything else has it as a whole."""
    if not response.headers.get("content-type", "").startswith(_STREAM):
        response.stream = _Bounded(response.stream)


def http_client(
    headers: Mapping[str, str] | None = None,
    timeout: Any = None,
    auth: Any = None,
    *,
    reading: float = 300.0,
) -> httpx2.AsyncClient:
    """A client for one server. `reading` are the seconds without a byte that it waits."""
    return httpx2.AsyncClient(
        headers=dict(headers or {}),
        timeout=timeout or httpx2.Timeout(30.0, read=reading),
        auth=auth,
        event_hooks={"response": [_bound]},
    )
