"""Browsers that run elsewhere: one the person started with a debugging port, or one of Browserbase.

Their network is not ours: nothing of what their pages ask for passes the proxy. The gate still decides
about every page that is opened, and addresses of private networks are refused as far as they are spelled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.core.net.door import Door, DoorError, DoorRequest
from tools.browser.host import OpenedBrowser
from tools.results import ToolError
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

BROWSERBASE = "https://api.browserbase.com"
_LARGEST = 1 << 29


class SocketTransport:
    """The DevTools protocol over a WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        import asyncio

        self._connection = connection
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writer = asyncio.create_task(self._write())

    def send(self, message: bytes) -> None:
        if self._writer.done():
            raise BrokenPipeError("the browser has gone")
        self._queue.put_nowait(message)

    async def receive(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            data = await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise EOFError from error
        return data if isinstance(data, bytes) else data.encode()

    async def close(self) -> None:
        """Hang up."""
        import asyncio

        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        await self._connection.close()

    async def _write(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while (message := await self._queue.get()) is not None:
                await self._connection.send(message.decode())


async def open_running(url: str) -> OpenedBrowser:
    """Connect to a browser that runs, by `browser.cdp_url`. Raises `ToolError`."""
    if not url:
        raise ToolError("browser.cdp_url is empty; set it to the address of a browser that runs.")
    address = url
    if urlsplit(url).scheme in ("http", "https"):
        try:
            answer = await Door().fetch(
                DoorRequest(url=f"{url.rstrip('/')}/json/version", own=url, kept=False)
            )
            address = str(json.loads(answer.body)["webSocketDebuggerUrl"])
        except (DoorError, ValueError, KeyError, TypeError) as error:
            raise ToolError(
                f"No browser answers at browser.cdp_url ({clean(url)[:200]}): {error} Start it with "
                "--remote-debugging-port=9222."
            ) from error
    transport = await _connected(address, "browser.cdp_url")
    return OpenedBrowser(
        backend="cdp", transport=transport, folder=None, close=transport.close, title="a running browser"
    )


async def open_browserbase(environ: Mapping[str, str], base: str = BROWSERBASE) -> OpenedBrowser:
    """Rent a browser of Browserbase; it is given back when it is closed. Raises `ToolError`."""
    key, project = environ.get("BROWSERBASE_API_KEY", ""), environ.get("BROWSERBASE_PROJECT_ID", "")
    if not key:
        raise ToolError("BROWSERBASE_API_KEY is not set; put it into ~/.hermes/.env.")
    made = await _browserbase(base, "/v1/sessions", key, {"projectId": project} if project else {})
    try:
        id, address = str(made["id"]), str(made["connectUrl"])
    except (KeyError, TypeError):
        raise ToolError("Browserbase gave no browser: its answer cannot be read.") from None
    release = {"status": "REQUEST_RELEASE"} | ({"projectId": project} if project else {})
    try:
        transport = await _connected(address, "Browserbase")
    except ToolError:
        await _browserbase(base, f"/v1/sessions/{id}", key, release)
        raise

    async def close() -> None:
        await transport.close()
        with suppress(ToolError):
            await _browserbase(base, f"/v1/sessions/{id}", key, release)

    return OpenedBrowser(
        backend="browserbase", transport=transport, folder=None, close=close, title="Browserbase"
    )


async def _browserbase(base: str, path: str, key: str, body: Mapping[str, Any]) -> Any:
    headers = {"X-BB-API-Key": key, "Content-Type": "application/json"}
    request = DoorRequest(
        url=f"{base}{path}",
        method="POST",
        headers=headers,
        body=json.dumps(body).encode(),
        own=base,
        kept=False,
    )
    try:
        answer = await Door().fetch(request)
    except DoorError as error:
        raise ToolError(f"Browserbase cannot be reached: {error}") from error
    if answer.status >= 400:
        said = clean(answer.body[:200].decode("utf-8", "replace"))
        raise ToolError(f"Browserbase refused ({answer.status}): {said}")
    try:
        return json.loads(answer.body)
    except ValueError:
        return {}


async def _connected(address: str, source: str) -> SocketTransport:
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    try:
        connection = await connect(address, max_size=_LARGEST, proxy=None, open_timeout=20)
    except (OSError, ValueError, TimeoutError, WebSocketException) as error:
        raise ToolError(f"The browser of {source} cannot be reached: {error}.") from error
    return SocketTransport(connection)
