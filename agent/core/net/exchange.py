"""One connection to the proxy, from its first byte to its last, and the networks through which the proxy
connects.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal, Protocol
from urllib.parse import unquote, urlsplit

from agent.core.net import http_head
from agent.core.net.addresses import Address, canonical, readings, refused_among, refused_name
from agent.core.net.http_head import LONGEST_HEAD, ChunkedEnd, RequestError, RequestHead, parse
from agent.core.net.secret_scan import SecretScan

_PIECE = 1 << 20
"""The number of bytes moved at once, and the size of the pipe in between, if the kernel permits it."""
_HAS_SPLICE = hasattr(os, "splice")


async def relay(source: socket.socket, target: socket.socket) -> None:
    """Pass all data from `source` to `target`, then signal its end.

    The kernel moves the bytes without copying them, if it can. Raises `OSError`.
    """
    if _HAS_SPLICE:
        await _splice(source, target)
    else:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, _READ):
            await loop.sock_sendall(target, data)
    half_close(target)


async def relay_both_ways(one: socket.socket, other: socket.socket) -> None:
    """Relay data in both directions until both have ended, or until one fails. Raises `OSError`."""
    await run_all(relay(one, other), relay(other, one))


async def run_all(*work: Coroutine[Any, Any, None]) -> None:
    """Run all coroutines concurrently; the first error cancels the others and is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_readable(source: socket.socket) -> None:
    """Wait until `source` has data to read or has ended."""
    loop = asyncio.get_running_loop()
    await _ready(source.fileno(), loop.add_reader, loop.remove_reader)


def half_close(target: socket.socket) -> None:
    """Signal to the other side that no more data will be sent."""
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def _splice(source: socket.socket, target: socket.socket) -> None:
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIECE)
        loop = asyncio.get_running_loop()
        while True:
            try:
                count = os.splice(source.fileno(), write_end, _PIECE, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError:
                await wait_readable(source)
                continue
            if count == 0:
                return
            while count:
                try:
                    count -= os.splice(read_end, target.fileno(), count, flags=os.SPLICE_F_NONBLOCK)
                except BlockingIOError:
                    await _ready(target.fileno(), loop.add_writer, loop.remove_writer)
    finally:
        os.close(read_end)
        os.close(write_end)


async def _ready(
    descriptor: int, watch: Callable[[int, Callable[[], None]], object], forget: Callable[[int], object]
) -> None:
    """Wait until a descriptor can be read or written, depending on `watch` and `forget`."""
    came = asyncio.get_running_loop().create_future()

    def finish() -> None:
        if not came.done():
            came.set_result(None)

    watch(descriptor, finish)
    try:
        await came
    finally:
        forget(descriptor)


RESOLVING = 10.0
CONNECTING = 10.0
"""The seconds within which one address must accept a connection."""
_NEXT = 3.0
"""Seconds after which the next address is tried as well."""


class UnreachableError(Exception):
    """Raised for a host that cannot be reached. The text continues a sentence that begins with its name."""


class RefusedAddressError(UnreachableError):
    """Raised for a host that is refused even with permission."""


class Network(Protocol):
    """Name resolution and outgoing connections."""

    @property
    def by_name(self) -> bool:
        """True if the network can connect to names that cannot be resolved on this machine."""
        ...

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return all addresses of a name. Raises `OSError`."""
        ...

    async def connect(self, target: Address | str, port: int) -> socket.socket:
        """Return a connected non-blocking socket; `target` is a name only if `by_name`. Raises `OSError`."""
        ...


class SystemNetwork:
    """The network of this machine, with its name resolution and sockets."""

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


async def resolve_allowed(
    network: Network, host: str, port: int, *, inside: bool = False
) -> Sequence[Address | str]:
    """Return the addresses of a canonical host, if all of them are allowed. Raises `UnreachableError`.

    Returns the host itself if only the network can resolve it. `inside` means the same as in `refused_among`.
    """
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


async def connect_first(network: Network, addresses: Sequence[Address | str], port: int) -> socket.socket:
    """Return a connection to the first address that answers. Raises `UnreachableError`.

    While an address is slow, others are tried in parallel.
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


log = logging.getLogger(__name__)

HEAD_PATIENCE = 20.0
"""Seconds within which the head of a request, and the first record in a tunnel, must be complete."""
_LINGER = 2.0
_READ = 1 << 16
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

RefusalKind = Literal["host", "address", "secret", "unreachable", "request"]


@dataclass(frozen=True, slots=True)
class ProxyRefusal:
    """A connection that was refused or aborted. `host` is in canonical form, empty if none was named."""

    host: str
    port: int
    kind: RefusalKind
    sentence: str
    """The sentence sent to the client."""


Decide = Callable[[str, int], Awaitable[str | None]]
"""A function that returns None if a port of a canonical host may be reached, otherwise the reason as the rest
of a sentence that begins with its name. Cancelled when the client disconnects.
"""


class Lifts(Protocol):
    """A decision about exceptions for requests whose address would otherwise be refused."""

    def allows(self, host: str, port: int, headers: Mapping[str, str], *, is_tunnel: bool) -> bool:
        """Return whether a request with these headers, by lower-case name, may reach an address of this
        machine.
        """
        ...

    def allows_inside(self, host: str, port: int, headers: Mapping[str, str] | None) -> bool:
        """Return whether the first request in a tunnel may reach the address for which `allows` accepted the
        tunnel.

        `headers` is None if the request is encrypted.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExchangeRules:
    """The rules for all connections of one proxy."""

    decide: Decide
    scan: SecretScan
    network: Network
    on_refusal: Callable[[ProxyRefusal], None]
    """A function called with every refused connection, before the client is answered."""
    is_own: Callable[[str, int], bool] = lambda host, port: False
    """A function that returns whether the user has listed the host as part of their own network."""
    lifts: Lifts | None = None


class _RefusedError(Exception):
    def __init__(self, status: int, kind: RefusalKind, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.kind: RefusalKind = kind


class ProxyExchange:
    """One client's connection to the proxy. The caller closes the socket."""

    def __init__(self, client: socket.socket, rules: ExchangeRules) -> None:
        self._client = client
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._host, self._port = "", 0
        self._is_lifted = False
        """True if a rule of the user permits the address."""
        self._is_answered = False
        """True if the beginning of a response was sent to the client."""

    async def run(self) -> None:
        """Serve the client until the connection ends; errors are answered or logged, not raised."""
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
        self._refuse_forbidden(head, request)
        await self._permit(request)
        with await self._reach() as server:
            if request.is_tunnel:
                await self._tunnel(server, rest)
            else:
                await self._pass_on(server, request, rest)

    async def _head(self) -> tuple[bytes, bytes] | None:
        """Return the head of the request, and the data after it; None when the client disconnected."""
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

    def _refuse_forbidden(self, head: bytes, request: RequestHead) -> None:
        """Refuse requests that can never be allowed, before the user is asked."""
        name = self._rules.scan.find(head) or self._rules.scan.find_in_host(request.host)
        if name is not None:
            raise self._secret_error(name)
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
        leaving = asyncio.ensure_future(self._wait_until_closed() if request.is_tunnel else asyncio.Future())
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

    async def _wait_until_closed(self) -> None:
        """Wait until the client has closed its side; forever if it sends data first."""
        await wait_readable(self._client)
        if self._client.recv(1, socket.MSG_PEEK):
            # The client sends before the tunnel is confirmed: from here on its end cannot be detected.
            await asyncio.Future()

    async def _reach(self) -> socket.socket:
        try:
            if self._is_lifted:
                loopback = (ip_address("127.0.0.1"), ip_address("::1"))
                return await connect_first(self._rules.network, readings(self._host) or loopback, self._port)
            addresses = await resolve_allowed(
                self._rules.network, self._host, self._port, inside=self._is_own()
            )
            return await connect_first(self._rules.network, addresses, self._port)
        except RefusedAddressError as error:
            raise _RefusedError(403, "address", f"{self._target()} is never reached: it {error}.") from error
        except UnreachableError as error:
            raise _RefusedError(502, "unreachable", f"{self._target()} {error}.") from error

    async def _tunnel(self, server: socket.socket, rest: bytes) -> None:
        self._is_answered = True
        await self._loop.sock_sendall(self._client, _ESTABLISHED)
        await run_all(self._from_client(server, rest), relay(server, self._client))

    async def _from_client(self, server: socket.socket, data: bytes) -> None:
        """Forward the client's data in a tunnel: TLS for the permitted host, or data checked for secrets."""
        try:
            async with asyncio.timeout(HEAD_PATIENCE) as patience:
                if not data:
                    # In some protocols the server sends first, and some clients wait.
                    patience.reschedule(None)
                    data = await self._loop.sock_recv(self._client, _READ)
                    patience.reschedule(self._loop.time() + HEAD_PATIENCE)
                while data[:1] == b"\x16" and (
                    len(data) < 2 or (http_head.is_tls(data) and is_incomplete(data))
                ):
                    more = await self._loop.sock_recv(self._client, _READ)
                    if not more:
                        break
                    data += more
        except TimeoutError:
            raise _RefusedError(408, "request", "The tunnel did not begin in time.") from None
        if self._is_lifted:
            data = await self._check_inner_request(data)
        if http_head.is_tls(data):
            self._check_server_name(data)
            await self._loop.sock_sendall(server, data)
            await relay(self._client, server)
            return
        stream = self._rules.scan.stream(ends=False)
        while data:
            await self._send(server, stream.feed(data))
            data = await self._loop.sock_recv(self._client, _READ)
        await self._loop.sock_sendall(server, stream.end())
        half_close(server)

    async def _check_inner_request(self, data: bytes) -> bytes:
        """Check the first request in a tunnel against the rule that permitted its address; return it."""
        headers = None
        if not http_head.is_tls(data):
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

    def _check_server_name(self, hello: bytes) -> None:
        """Refuse a connection whose TLS hello names a host other than the permitted one."""
        try:
            name = http_head.server_name(hello)
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
        await wait_readable(server)
        self._is_answered = True
        await relay(server, self._client)

    async def _body(self, server: socket.socket, request: RequestHead, data: bytes) -> None:
        """Forward the body of a request. Data after the body is not forwarded, because it would be an
        unchecked request.
        """
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
            raise self._secret_error(name)
        await self._loop.sock_sendall(server, data)

    def _secret_error(self, name: str) -> _RefusedError:
        sentence = f"What was to leave for {self._target()} holds the secret {name}; secrets never leave."
        return _RefusedError(403, "secret", sentence)

    def _is_own(self) -> bool:
        return self._rules.is_own(self._host, self._port)

    def _target(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def _refuse(self, status: int, kind: RefusalKind, sentence: str) -> None:
        """Report the refusal, send its reason to the client, and wait briefly until that is read."""
        self._rules.on_refusal(ProxyRefusal(self._host, self._port, kind, sentence))
        if self._is_answered:
            return
        plain = "".join(each if " " <= each <= "~" else "?" for each in sentence)
        # A shell into which this is piped fails, and runs no word of the sentence.
        body = f"# Hermes: {plain}\nfalse # A shell that runs this page fails.\n".encode()
        head = (
            f"HTTP/1.1 {status} Hermes: {plain}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nX-Hermes: refused\r\n\r\n"
        )
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER):
                await self._loop.sock_sendall(self._client, head.encode() + body)
                half_close(self._client)
                # Closing with unread data would discard the answer.
                while await self._loop.sock_recv(self._client, _READ):
                    pass


def headers_of(head: bytes) -> dict[str, str]:
    """Return the headers of a request by lower-case name; a line without a colon gets an empty value."""
    lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    pairs = (line.partition(b":") for line in lines)
    return {name.decode("latin-1").lower(): value.strip().decode("latin-1") for name, _, value in pairs}


def is_incomplete(data: bytes) -> bool:
    """Return whether the first TLS record is incomplete; False if it is already too long."""
    return len(data) < http_head.LARGEST and http_head.missing(data) > 0


_LONGEST = 16 * 1024
_NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY")


_chosen: list[Network] = []


@contextmanager
def use_network(network: Network) -> Iterator[None]:
    """Make all web clients and proxies that are created inside this context use `network`."""
    _chosen.append(network)
    try:
        yield
    finally:
        _chosen.remove(network)


def chosen_network() -> Network | None:
    """Return the network set by `use_network`; None outside of its context."""
    return _chosen[-1] if _chosen else None


class UpstreamNetwork:
    """A network whose connections are tunnels through the HTTP proxy at `host` and `port`."""

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


def outgoing_network(environ: Mapping[str, str]) -> Network:
    """Return the network to use: that of `use_network`, else the proxy in `environ`, else the system's."""
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
    """Return the status line of the proxy's response. Data after its head is left unread."""
    loop = asyncio.get_running_loop()
    data = b""
    while b"\r\n\r\n" not in data:
        # One byte at a time: further data belongs to the tunnel.
        piece = await loop.sock_recv(connection, 1)
        if not piece or len(data) > _LONGEST:
            raise ConnectionRefusedError("the proxy of the environment did not answer")
        data += piece
    return data.partition(b"\r\n")[0]


class SocketTasks:
    """The running tasks of one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], *owned: socket.socket) -> asyncio.Task[None]:
        """Run `work` as a task, return it, and close the sockets `owned` after it has ended.

        A task that is cancelled before its first step never enters the `with` that would close them.
        """

        def finish(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            for each in owned:
                each.close()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(finish)
        return task

    def cancel(self) -> None:
        """Cancel all tasks."""
        for each in self._tasks:
            each.cancel()
