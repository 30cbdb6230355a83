"""The DevTools protocol over one transport: calls with answers, events by session."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tools.browser.host import Transport

log = logging.getLogger(__name__)

Params = Mapping[str, Any]
Handler = Callable[[str, dict[str, Any]], None]
PATIENCE = 30.0
"""Seconds for the answer to one call."""
_LARGE = 1 << 16


class CdpError(Exception):
    """Raised if the browser refused a call. The text comes from the browser."""


class BrowserGoneError(CdpError):
    """Raised if the browser, or the connection to it, has ended."""


class Cdp:
    """Sends calls and receives events.

    `start` begins to read; `gone` is done when no more messages arrive.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._handlers: dict[str, Handler] = {}
        self._reader: asyncio.Task[None] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Begin to read."""
        self._reader = asyncio.create_task(self._read())

    def listen(self, session: str, handler: Handler) -> None:
        """Register `handler` for the events of a session. The browser itself has the empty session id."""
        self._handlers[session] = handler

    def forget(self, session: str) -> None:
        """Stop listening to a session and end the calls that wait for its answers."""
        self._handlers.pop(session, None)
        self.break_off(session, "the frame went away")

    def break_off(self, session: str, why: str) -> None:
        """End the waiting calls to a session that no longer answers."""
        for number, (of, future) in list(self._waiting.items()):
            if of == session and session:
                del self._waiting[number]
                if not future.done():
                    future.set_exception(CdpError(why))

    async def call(
        self, method: str, params: Params | None = None, session: str = "", patience: float = PATIENCE
    ) -> dict[str, Any]:
        """Call a method and wait for its answer. Raises `CdpError`."""
        if self.gone.done():
            raise BrowserGoneError("the browser has ended")
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": dict(params or {})}
        if session:
            message["sessionId"] = session
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (session, future)
        try:
            self._transport.send(json.dumps(message).encode())
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError:
            raise CdpError(f"the page did not answer to {method} within {patience:g} s") from None
        except OSError as error:
            raise BrowserGoneError("the browser has ended") from error
        finally:
            self._waiting.pop(number, None)

    def tell(self, method: str, params: Params | None = None, session: str = "") -> None:
        """Call a method without waiting for its answer."""
        message: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": dict(params or {})}
        if session:
            message["sessionId"] = session
        with suppress(OSError):
            self._transport.send(json.dumps(message).encode())

    async def close(self) -> None:
        """Stop reading and end waiting calls."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._end()

    async def _read(self) -> None:
        try:
            while True:
                data = await self._transport.receive()
                # What takes a while to read must not hold up the screen.
                found = await asyncio.to_thread(json.loads, data) if len(data) > _LARGE else json.loads(data)
                self._take(found)
        except (EOFError, OSError, ValueError) as error:
            log.debug("the browser ended: %r", error)
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if number is None:
            handler = self._handlers.get(message.get("sessionId", ""))
            if handler is not None:
                try:
                    handler(message.get("method", ""), message.get("params") or {})
                except Exception:
                    log.exception("an event of the browser could not be taken")
            return
        _, future = self._waiting.pop(number, ("", None))
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(CdpError(str(message["error"].get("message", "refused"))))
        else:
            future.set_result(message.get("result") or {})

    def _end(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(BrowserGoneError("the browser has ended"))
        self._waiting.clear()
