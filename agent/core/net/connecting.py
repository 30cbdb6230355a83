"""Connects to a host: resolved once, each answer checked, and one of these connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Protocol

from agent.core.net.addresses import Address, readings, refused_among, refused_name

RESOLVING = 10.0
CONNECTING = 10.0
"""Seconds for a name to be resolved, and for one address to answer."""
_NEXT = 3.0
"""Seconds after which the next address is tried."""


class UnreachableError(Exception):
    """A host that cannot be reached. The text is a clause that follows its name."""


class RefusedAddressError(UnreachableError):
    """A host that is not reached, whoever allows it."""


class Network(Protocol):
    """The way out."""

    @property
    def by_name(self) -> bool:
        """Whether it takes names that cannot be resolved here."""
        ...

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a name. Raises `OSError`."""
        ...

    async def connect(self, target: Address | str, port: int) -> socket.socket:
        """A connected socket that does not block; `target` is a name only if `by_name`. Raises `OSError`."""
        ...


class SystemNetwork:
    """Name service and sockets of this machine."""

    by_name = False

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]

    async def connect(self, target: Address | str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in str(target) else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(connection, (str(target), port))
        except BaseException:
            connection.close()
            raise
        return connection


async def checked(network: Network, host: str, port: int, *, inside: bool = False) -> Sequence[Address | str]:
    """The addresses of a canonical host, all of which may be reached; the host itself where only the network
    beyond can resolve it. `inside` as in `refused_among`. Raises `UnreachableError`."""
    if (why := refused_name(host)) is not None:
        raise RefusedAddressError(why)
    addresses: Sequence[Address] = readings(host)
    if not addresses:
        try:
            async with asyncio.timeout(RESOLVING):
                addresses = await network.resolve(host, port)
        except TimeoutError:
            addresses = ()
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses and network.by_name:
            return (host,)
        if not addresses:
            raise UnreachableError("was not found")
    if (found := refused_among(addresses, inside=inside)) is not None:
        address, why = found
        said = why if str(address) == host else f"leads to {address}, which {why}"
        raise RefusedAddressError(said)
    return tuple(dict.fromkeys(addresses))


async def connected(network: Network, addresses: Sequence[Address | str], port: int) -> socket.socket:
    """A connection to the first address that answers. Raises `UnreachableError`.

    Others are tried beside one that takes its time.
    """
    attempts: set[asyncio.Task[socket.socket]] = set()
    reason = "did not answer in time"
    try:
        for place, address in enumerate(addresses):
            attempts.add(asyncio.ensure_future(_within(network, address, port)))
            is_last = place == len(addresses) - 1
            while attempts:
                done, _ = await asyncio.wait(
                    attempts, timeout=None if is_last else _NEXT, return_when=asyncio.FIRST_COMPLETED
                )
                for each in done:
                    attempts.discard(each)
                    if each.exception() is None:
                        return each.result()
                    reason = _reason(each.exception())
                if not is_last:
                    break
    finally:
        for each in attempts:
            each.add_done_callback(_close)
            each.cancel()
    raise UnreachableError(reason)


async def _within(network: Network, address: Address | str, port: int) -> socket.socket:
    async with asyncio.timeout(CONNECTING):
        return await network.connect(address, port)


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _reason(error: BaseException | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection"
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    return "cannot be reached"
