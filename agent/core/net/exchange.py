"""One connection to the proxy, from its first byte to its last."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal, Protocol

from agent.core.net import tls_hello
from agent.core.net.addresses import canonical, readings, refused_among, refused_name
from agent.core.net.connecting import Network, RefusedAddressError, UnreachableError, checked, connected
from agent.core.net.http_head import LONGEST_HEAD, ChunkedEnd, RequestError, RequestHead, parse
from agent.core.net.relay import half_close, pour, readable, together
from agent.core.net.secret_scan import SecretScan

log = logging.getLogger(__name__)

HEAD_PATIENCE = 20.0
"""Seconds in which the head of a request has to be complete, and the first record of a tunnel."""
_LINGER = 2.0
_READ = 1 << 16
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

RefusalKind = Literal["host", "address", "secret", "unreachable", "request"]


@dataclass(frozen=True, slots=True)
class ProxyRefusal:
    """A connection that was not made, or broken off. `host` is canonical, empty where none was named."""

    host: str
    port: int
    kind: RefusalKind
    sentence: str
    """What the client was told."""


Decide = Callable[[str, int], Awaitable[str | None]]
"""Whether a port of a canonical host may be reached: None, or a clause that follows its name and says why
not. Cancelled when the client goes away meanwhile."""


class Lifts(Protocol):
    """Knows requests that may pass although their address is refused otherwise."""

    def allows(self, host: str, port: int, headers: Mapping[str, str], *, is_tunnel: bool) -> bool:
        """Whether a request with these headers, by lower-case name, may reach an address of this machine."""
        ...

    def allows_inside(self, host: str, port: int, headers: Mapping[str, str] | None) -> bool:
        """The same for the first request in a tunnel that `allows` let through; None: it is encrypted."""
        ...


@dataclass(frozen=True, slots=True)
class ExchangeRules:
    """What all connections of one proxy are held to."""

    decide: Decide
    scan: SecretScan
    network: Network
    told: Callable[[ProxyRefusal], None]
    """Hears of every connection that was not made, before the client does."""
    is_own: Callable[[str, int], bool] = lambda host, port: False
    """Whether a person has named the host as one that may lie in a network of theirs."""
    lifts: Lifts | None = None


class _RefusedError(Exception):
    def __init__(self, status: int, kind: RefusalKind, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.kind: RefusalKind = kind


class ProxyExchange:
    """Serves one client. The socket is the caller's to close."""

    def __init__(self, client: socket.socket, rules: ExchangeRules) -> None:
        self._client = client
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._host, self._port = "", 0
        self._is_lifted = False
        """Whether a rule of the person's opens the address."""
        self._is_answered = False
        """Whether the client got the beginning of an answer."""

    async def run(self) -> None:
        """Serve to the end."""
        try:
            await self._serve()
        except _RefusedError as error:
            await self._refuse(error.status, error.kind, str(error))
        except RequestError as error:
            await self._refuse(error.status, "request", str(error))
        except OSError as error:
            log.debug("a connection to %s:%d broke off: %s", self._host, self._port, error)

    async def _serve(self) -> None:
        found = await self._head()
        if found is None:
            return
        head, rest = found
        request = parse(head)
        self._host, self._port = request.host, request.port
        self._look(head, request)
        await self._permit(request)
        with await self._reach() as server:
            if request.is_tunnel:
                await self._tunnel(server, rest)
            else:
                await self._pass_on(server, request, rest)

    async def _head(self) -> tuple[bytes, bytes] | None:
        """The head of the request, and what came behind it; None when the client went away."""
        data = bytearray()
        try:
            async with asyncio.timeout(HEAD_PATIENCE):
                while (end := data.find(b"\r\n\r\n")) < 0:
                    if len(data) > LONGEST_HEAD:
                        raise RequestError(431, "The head of the request is too long.")
                    piece = await self._loop.sock_recv(self._client, _READ)
                    if not piece:
                        return None
                    data += piece
        except TimeoutError:
            raise RequestError(408, "The head of the request did not come in time.") from None
        return bytes(data[: end + 4]), bytes(data[end + 4 :])

    def _look(self, head: bytes, request: RequestHead) -> None:
        """Refuse what nobody can allow, before anybody is asked."""
        name = self._rules.scan.find(head) or self._rules.scan.find_in_host(request.host)
        if name is not None:
            raise self._holds(name)
        lifts = self._rules.lifts
        self._is_lifted = lifts is not None and lifts.allows(
            request.host, request.port, headers_of(head), is_tunnel=request.is_tunnel
        )
        if self._is_lifted:
            return
        why = refused_name(request.host)
        if (
            why is None
            and (found := refused_among(readings(request.host), inside=self._is_own())) is not None
        ):
            why = found[1]
        if why is not None:
            raise _RefusedError(403, "address", f"{self._target()} is never reached: it {why}.")

    async def _permit(self, request: RequestHead) -> None:
        asking = asyncio.ensure_future(self._decide())
        leaving = asyncio.ensure_future(self._gone() if request.is_tunnel else asyncio.Future())
        try:
            await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionError("the client went away")
            if (why := asking.result()) is not None:
                raise _RefusedError(403, "host", f"{self._target()} {why}.")
        finally:
            asking.cancel()
            leaving.cancel()

    async def _decide(self) -> str | None:
        return await self._rules.decide(self._host, self._port)

    async def _gone(self) -> None:
        """Wait until the client has closed its side."""
        await readable(self._client)
        if self._client.recv(1, socket.MSG_PEEK):
            # It sends before it was told that it may: from here on its end cannot be seen.
            await asyncio.Future()

    async def _reach(self) -> socket.socket:
        try:
            if self._is_lifted:
                loopback = (ip_address("127.0.0.1"), ip_address("::1"))
                return await connected(self._rules.network, readings(self._host) or loopback, self._port)
            addresses = await checked(self._rules.network, self._host, self._port, inside=self._is_own())
            return await connected(self._rules.network, addresses, self._port)
        except RefusedAddressError as error:
            raise _RefusedError(403, "address", f"{self._target()} is never reached: it {error}.") from error
        except UnreachableError as error:
            raise _RefusedError(502, "unreachable", f"{self._target()} {error}.") from error

    async def _tunnel(self, server: socket.socket, rest: bytes) -> None:
        self._is_answered = True
        await self._loop.sock_sendall(self._client, _ESTABLISHED)
        await together(self._from_client(server, rest), pour(server, self._client))

    async def _from_client(self, server: socket.socket, data: bytes) -> None:
        """What a tunnel carries out: encrypted for the host it was let through for, or searched."""
        try:
            async with asyncio.timeout(HEAD_PATIENCE) as patience:
                if not data:
                    # Some protocols begin with the server, and some clients wait.
                    patience.reschedule(None)
                    data = await self._loop.sock_recv(self._client, _READ)
                    patience.reschedule(self._loop.time() + HEAD_PATIENCE)
                while data[:1] == b"\x16" and (len(data) < 2 or (tls_hello.is_tls(data) and missing(data))):
                    more = await self._loop.sock_recv(self._client, _READ)
                    if not more:
                        break
                    data += more
        except TimeoutError:
            raise _RefusedError(408, "request", "The tunnel did not begin in time.") from None
        if self._is_lifted:
            data = await self._look_inside(data)
        if tls_hello.is_tls(data):
            self._compare(data)
            await self._loop.sock_sendall(server, data)
            await pour(self._client, server)
            return
        stream = self._rules.scan.stream(ends=False)
        while data:
            await self._send(server, stream.feed(data))
            data = await self._loop.sock_recv(self._client, _READ)
        await self._loop.sock_sendall(server, stream.end())
        half_close(server)

    async def _look_inside(self, data: bytes) -> bytes:
        """Hold a tunnel to an address that was opened by a rule to where its first request comes from."""
        headers = None
        if not tls_hello.is_tls(data):
            while b"\r\n\r\n" not in data:
                more = await self._loop.sock_recv(self._client, _READ)
                if not more or len(data) > LONGEST_HEAD:
                    break
                data += more
            headers = headers_of(data)
        lifts = self._rules.lifts
        if lifts is None or not lifts.allows_inside(self._host, self._port, headers):
            raise _RefusedError(403, "address", f"{self._target()} is not reached from a page of elsewhere.")
        return data

    def _compare(self, hello: bytes) -> None:
        """Refuse a connection that was let through for one host and asks for another there."""
        try:
            name = tls_hello.server_name(hello)
            asked = None if name is None else canonical(name)
        except ValueError:
            raise _RefusedError(
                403, "request", f"What is sent to {self._target()} begins like TLS and cannot be read."
            ) from None
        if asked is not None and asked != self._host and not readings(self._host):
            raise _RefusedError(
                403, "host", f"A connection to {self._target()} asks for {asked} there; it is broken off."
            )

    async def _pass_on(self, server: socket.socket, request: RequestHead, rest: bytes) -> None:
        await self._loop.sock_sendall(server, request.onward)
        uploading = asyncio.ensure_future(self._body(server, request, rest))
        answering = asyncio.ensure_future(self._respond(server))
        try:
            await asyncio.wait((uploading, answering), return_when=asyncio.FIRST_EXCEPTION)
            if uploading.done():
                uploading.result()
            await answering
        finally:
            uploading.cancel()
            answering.cancel()
            await asyncio.gather(uploading, answering, return_exceptions=True)

    async def _respond(self, server: socket.socket) -> None:
        await readable(server)
        self._is_answered = True
        await pour(server, self._client)

    async def _body(self, server: socket.socket, request: RequestHead, data: bytes) -> None:
        """Pass the body on and nothing behind it: what follows would be a request nobody looked at."""
        if request.framing == "none":
            return
        stream, left, chunks = self._rules.scan.stream(ends=True), request.length, ChunkedEnd()
        while True:
            size = chunks.feed(data) if request.framing == "chunked" else min(left, len(data))
            left -= size
            await self._send(server, stream.feed(data[:size]))
            if chunks.is_over or (request.framing == "length" and left == 0):
                break
            data = await self._loop.sock_recv(self._client, _READ)
            if not data:
                raise ConnectionError("the client went away")
        await self._loop.sock_sendall(server, stream.end())

    async def _send(self, server: socket.socket, found: tuple[bytes, str | None]) -> None:
        data, name = found
        if name is not None:
            raise self._holds(name)
        await self._loop.sock_sendall(server, data)

    def _holds(self, name: str) -> _RefusedError:
        sentence = f"What was to leave for {self._target()} holds the secret {name}; secrets never leave."
        return _RefusedError(403, "secret", sentence)

    def _is_own(self) -> bool:
        return self._rules.is_own(self._host, self._port)

    def _target(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def _refuse(self, status: int, kind: RefusalKind, sentence: str) -> None:
        """Tell the client why, and wait a moment for it to read that."""
        self._rules.told(ProxyRefusal(self._host, self._port, kind, sentence))
        if self._is_answered:
            return
        plain = "".join(each if " " <= each <= "~" else "?" for each in sentence)
        body = f"Hermes: {plain}\n".encode()
        head = (
            f"HTTP/1.1 {status} Hermes: {plain}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nX-Hermes: refused\r\n\r\n"
        )
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER):
                await self._loop.sock_sendall(self._client, head.encode() + body)
                half_close(self._client)
                # Closing with something unread would take the answer back.
                while await self._loop.sock_recv(self._client, _READ):
                    pass


def headers_of(head: bytes) -> dict[str, str]:
    """The headers of a request by lower-case name; what cannot be read is left out."""
    lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    pairs = (line.partition(b":") for line in lines)
    return {name.decode("latin-1").lower(): value.strip().decode("latin-1") for name, _, value in pairs}


def missing(data: bytes) -> bool:
    """Whether the first record is not complete yet."""
    return len(data) < tls_hello.LARGEST and tls_hello.missing(data) > 0
