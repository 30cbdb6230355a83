"""Connections of the door for its HTTP library: to an address that was checked, and to no other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2

from agent.core.net.addresses import Address, readings
from agent.core.net.connecting import Network, RefusedAddressError, checked, connected

_LOOPBACK = ("127.0.0.1", "::1")


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves once, checks every answer and connects to one of them.

    `is_own` tells that a person has named this very address: it may lie anywhere but where credentials are
    handed out.
    """

    def __init__(self, network: Network, *, is_own: bool) -> None:
        self._network = network
        self._is_own = is_own

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is the library's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await (self._own(host, port) if self._is_own else checked(self._network, host, port))
        connection = await connected(self._network, addresses, port)
        try:
            reader, writer = await asyncio.open_connection(sock=connection)
        except BaseException:
            connection.close()
            raise
        return _Stream(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _own(self, host: str, port: int) -> Sequence[Address | str]:
        from ipaddress import ip_address

        from agent.core.net.addresses import is_metadata, refused_name

        if host == "localhost":
            return [ip_address(each) for each in _LOOPBACK]
        why = refused_name(host)
        found = [] if why else readings(host) or await self._network.resolve(host, port)
        if why or any(map(is_metadata, found)):
            raise RefusedAddressError(
                "is the address of a service that hands out the credentials of this machine"
            )
        return list(dict.fromkeys(found))


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection as the library reads and writes it. Time is the door's to keep."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            return await self._reader.read(max_bytes)
        except (OSError, ssl.SSLError) as error:
            raise httpcore2.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            self._writer.write(buffer)
            await self._writer.drain()
        except (OSError, ssl.SSLError) as error:
            raise httpcore2.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        try:
            await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except (OSError, ssl.SSLError, EOFError) as error:
            self._writer.transport.abort()
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
            raise httpcore2.ConnectError(f"its encryption cannot be trusted ({reason})") from error
        return self

    def get_extra_info(self, info: str) -> Any:
        return self._writer.get_extra_info("ssl_object") if info == "ssl_object" else None
