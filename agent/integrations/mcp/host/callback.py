"""The page on this machine that a browser comes back to after a person has signed in."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"
PATIENCE = 300.0
"""Seconds a person has."""
_LARGEST = 16_384
_DONE = "You are signed in. Close this page and go back to Hermes."
_NOT_DONE = "Signing in did not work. Go back to Hermes, which says why."


class Callback:
    """A server for exactly one answer. Its port is kept from the moment it is made."""

    def __init__(self, path: str, port: int = 0, *, opens: bool = True) -> None:
        """`port` is that of an earlier registration; `opens` tells whether anybody will be sent here."""
        self._path = path
        self._socket = None if port or not opens else _bound(0)
        self._port = port if self._socket is None else int(self._socket.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[dict[str, str]] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}{self._path}"

    async def open(self) -> None:
        """Listen. May be called again for another answer. Raises `OSError`."""
        self._answer = asyncio.get_running_loop().create_future()
        if self._server is None:
            self._socket = self._socket or _bound(self._port)
            self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=_LARGEST)

    async def answer(self) -> dict[str, str]:
        """The parameters with which the browser came back. Raises `TimeoutError`."""
        assert self._answer is not None
        async with asyncio.timeout(PATIENCE):
            return await self._answer

    def close(self) -> None:
        """Give the port back."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            ConnectionError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            found = _parameters(head, self._path)
            if found is None:
                writer.write(_page("404 Not Found", "There is nothing here."))
            else:
                writer.write(_page("200 OK", _NOT_DONE if "error" in found else _DONE))
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(found)
            await writer.drain()
        writer.close()


def _bound(port: int) -> socket.socket:
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((HOST, port))
    except OSError as error:
        own.close()
        raise OSError(error.errno, f"port {port}, where the browser comes back to, is in use") from error
    return own


def _parameters(head: bytes, path: str) -> dict[str, str] | None:
    """The parameters of a request for `path`; None for any other request."""
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != "GET":
        return None
    parts = urlsplit(words[1])
    found = dict(parse_qsl(parts.query))
    return found if parts.path == path and ("code" in found or "error" in found) else None


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Hermes</title><p>{text}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
