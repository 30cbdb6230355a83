"""The way out through a proxy that the environment names, as in many companies.

Names are resolved and checked here first, and the other proxy is asked for the checked address. A name
that cannot be resolved here is left to it.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from agent.core.net.addresses import Address
from agent.core.net.connecting import Network, SystemNetwork

_LONGEST = 16 * 1024
_NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY")


_chosen: list[Network] = []


@contextmanager
def use_network(network: Network) -> Iterator[None]:
    """Have doors and proxies of this process that are opened meanwhile resolve and connect by `network`."""
    _chosen.append(network)
    try:
        yield
    finally:
        _chosen.remove(network)


def chosen_network() -> Network | None:
    """The network of `use_network`; None outside of it."""
    return _chosen[-1] if _chosen else None


class UpstreamNetwork:
    """Opens tunnels through the HTTP proxy at `host` and `port`."""

    by_name = True

    def __init__(self, host: str, port: int, user: str = "", password: str = "") -> None:
        self._proxy = host, port
        self._system = SystemNetwork()
        self._credentials = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        return await self._system.resolve(host, port)

    async def connect(self, target: Address | str, port: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        connection = await self._to_proxy()
        try:
            shown = f"[{target}]" if ":" in str(target) else str(target)
            head = f"CONNECT {shown}:{port} HTTP/1.1\r\nHost: {shown}:{port}\r\n"
            if self._credentials:
                head += f"Proxy-Authorization: Basic {self._credentials}\r\n"
            await loop.sock_sendall(connection, f"{head}\r\n".encode())
            status = (await _answer(connection)).split(b" ", 2)
            if len(status) < 2 or not status[1].startswith(b"2"):
                raise ConnectionRefusedError("the proxy of the environment refused")
        except BaseException:
            connection.close()
            raise
        return connection

    async def _to_proxy(self) -> socket.socket:
        host, port = self._proxy
        addresses = await self._system.resolve(host, port)
        for address in addresses[:-1]:
            try:
                return await self._system.connect(address, port)
            except OSError:
                continue
        return await self._system.connect(addresses[-1], port)


def way_out(environ: Mapping[str, str]) -> Network:
    """How hosts are reached: by that of `use_network`, through the proxy that `environ` names, directly."""
    if (chosen := chosen_network()) is not None:
        return chosen
    named = next((value for name in _NAMES if (value := environ.get(name, "").strip())), "")
    try:
        parts = urlsplit(named if "://" in named else f"http://{named}")
        port = parts.port or 80
    except ValueError:
        return SystemNetwork()
    if not named or parts.scheme != "http" or not parts.hostname:
        return SystemNetwork()
    return UpstreamNetwork(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))


async def _answer(connection: socket.socket) -> bytes:
    """The first line of the answer; what follows its head is left to be read."""
    loop = asyncio.get_running_loop()
    data = b""
    while b"\r\n\r\n" not in data:
        # One byte at a time: what comes next belongs to the tunnel.
        piece = await loop.sock_recv(connection, 1)
        if not piece or len(data) > _LONGEST:
            raise ConnectionRefusedError("the proxy of the environment did not answer")
        data += piece
    return data.partition(b"\r\n")[0]
