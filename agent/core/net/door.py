"""The only network access, `WebClient`, for requests that tools make for the model.

Supports http and https. The address is checked first. Then the permission check decides. Then the name is
resolved, and every resolved address is checked before one of them is connected to. Every redirect is a
separate request. Names and connections go through a `Network` (`agent.core.net.exchange`), so that tests and
observers can replace it: `WebClient(network=…)`, or `agent.core.net.exchange.use_network(…)` around all code
that creates a client.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal
from urllib.parse import quote, urljoin, urlsplit

import httpcore2

from agent.core.net.addresses import Address, canonical, is_metadata, readings, refused_among, refused_name
from agent.core.net.exchange import (
    Network,
    RefusedAddressError,
    SystemNetwork,
    UnreachableError,
    chosen_network,
    connect_first,
    outgoing_network,
    resolve_allowed,
)
from agent.core.net.page_cache import KeptPage, PageCache
from agent.core.net.proxy import EgressProxy
from agent.core.net.secret_scan import SecretScan
from agent.errors import ExitCode, HermesError
from tools.kit.lazy_pattern import lazy_pattern

LONGEST = 8_000
"""The limit on an address in characters."""
_PORTS = {"http": 80, "https": 443}
_STEERING = lazy_pattern(r"[\x00-\x20\x7f\\\u2028\u2029]")
_KEPT = "!$%&'()*+,-./:;=?@[]_~"
"""Characters left unescaped in a path or query; all others are percent-encoded."""


class AddressError(ValueError):
    """Raised for an address that is never requested. The text is a sentence for user and model."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https address in the form in which it is requested."""

    scheme: str
    host: str
    """The host in canonical form, in ASCII, without brackets."""
    port: int
    path: str
    """The path and the query, in ASCII."""
    fragment: str = ""

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """The scheme, host and port in canonical form."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The host, with the port if it is not the default one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address without its fragment, which is never sent."""
        return f"{self.origin}{self.path}"


def web_address(url: str, *, base: WebAddress | None = None) -> WebAddress:
    """Parse an address, relative to the page `base` if it is given. Raises `AddressError`."""
    text = url.strip(" \t\r\n")
    if len(text) > LONGEST:
        raise AddressError(f"The address {address_text(text)} is longer than {LONGEST:,} characters.")
    if _STEERING.search(text):
        raise AddressError(
            f"The address {address_text(text)} holds blanks, control characters or backslashes; "
            "write them as %20."
        )
    try:
        joined = text if base is None else urljoin(base.url, text)
        parts = urlsplit(joined)
        port = parts.port
    except ValueError:
        raise AddressError(f"{address_text(text)} is not an address that can be read.") from None
    if parts.scheme not in _PORTS:
        what = (
            f"begins with {parts.scheme}: and is not fetched"
            if parts.scheme
            else "is only a part of an address"
        )
        raise AddressError(f"{address_text(text)} {what}; begin it with https:// or http://.")
    if "@" in parts.netloc:
        raise AddressError("The address holds a user or password, which does not belong there; leave it out.")
    try:
        host = canonical(parts.hostname or "")
    except ValueError as error:
        raise AddressError(f"{address_text(parts.hostname or text)} {error}.") from None
    port = _PORTS[parts.scheme] if port is None else port
    if not 0 < port < 65_536:
        raise AddressError(f"{address_text(text)} has a port that does not exist.")
    path = quote(parts.path or "/", safe=_KEPT)
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return WebAddress(parts.scheme, host, port, path + query, parts.fragment)


def refusal(found: WebAddress) -> str | None:
    """Return the reason why an address is refused whatever its host resolves to; None if that depends on the
    result.
    """
    if (why := refused_name(found.host)) is not None:
        return why
    refused = refused_among(readings(found.host))
    return None if refused is None else refused[1]


def is_refused(url: str) -> bool:
    """Return whether requests to an address are refused because of its text alone, before it is resolved."""
    try:
        return refusal(web_address(url)) is not None
    except AddressError:
        return True


def address_text(text: str) -> str:
    """Return an address for use in a sentence, without unprintable characters and cut to 200 characters."""
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text[:200])
    return f"{plain}…" if len(text) > 200 else plain


class PackedError(ValueError):
    """Raised for a body that cannot be decompressed.

    The text is the rest of a sentence that begins with the host.
    """


class Unpacker:
    """A decompressor for one body in one encoding. `limit` is the maximum decompressed size in bytes."""

    def __init__(self, encoding: str, limit: int) -> None:
        kinds = [
            each for each in encoding.lower().replace(" ", "").split(",") if each not in ("", "identity")
        ]
        if len(kinds) > 1 or (kinds and kinds[0] not in ("gzip", "x-gzip", "deflate")):
            raise PackedError(f"packed its answer in a form that was not asked for ({', '.join(kinds)[:60]})")
        self._kind = kinds[0] if kinds else ""
        self._limit = limit
        self._size = 0
        self._engine = self._new() if self._kind else None
        self._fed = b""
        """The bytes of a deflate body received before anything was decompressed."""

    def feed(self, data: bytes) -> bytes:
        """Return the decompressed bytes of `data`. Raises `PackedError`, above the limit as well."""
        if self._engine is None:
            return self._count(data)
        found = bytearray()
        if self._kind == "deflate" and not self._size:
            self._fed += data
        while data:
            try:
                found += self._engine.decompress(data, self._limit - self._size - len(found) + 1)
            except zlib.error:
                data = self._bare(found)
                continue
            if self._size + len(found) > self._limit:
                raise self._too_large()
            if self._engine.eof:
                # A gzip file may have several members; other data after it is not part of the body.
                data = self._engine.unused_data
                if self._kind == "deflate" or not data.startswith(b"\x1f\x8b"):
                    break
                self._engine = self._new()
            else:
                data = self._engine.unconsumed_tail
        self._size += len(found)
        return bytes(found)

    def _bare(self, found: bytearray) -> bytes:
        """Switch to a body without the zlib header, which some servers omit; return its bytes so far."""
        if self._kind != "deflate" or self._size or found:
            raise PackedError("sent an answer that cannot be unpacked") from None
        self._kind = "bare"
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._fed

    def _new(self) -> zlib._Decompress:
        return zlib.decompressobj(zlib.MAX_WBITS if self._kind == "deflate" else zlib.MAX_WBITS | 16)

    def _count(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > self._limit:
            raise self._too_large()
        return data

    def _too_large(self) -> PackedError:
        return PackedError(f"sends more than {self._limit / 1_000_000:g} MB unpacked, which is not taken")


WebErrorKind = Literal["address", "form", "secret", "redirects", "size", "time", "unreachable", "packed"]
"""The reason for a failure: a refused address, a malformed one, a secret in the request, too many or unsafe
redirects, size or time limit exceeded, no connection, a body that cannot be decompressed.
"""

_REDIRECTS = (301, 302, 303, 307, 308)
_OWN_HEADERS = frozenset(("authorization", "cookie", "x-api-key", "x-subscription-token", "content-type"))
"""Headers that are not sent on when a redirect leads to another host."""
AGENT = "Mozilla/5.0 (compatible; hermes-tui)"


class WebError(HermesError):
    """Raised for a failed request. The text is a sentence."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, sentence: str, kind: WebErrorKind) -> None:
        super().__init__(sentence)
        self.kind: WebErrorKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """The size and time limits of one request."""

    size: int = 10_000_000
    """The limit on the received body in bytes."""
    unpacked: int = 20_000_000
    """The limit on the decompressed body in bytes."""
    seconds: float = 30.0
    """The time for the response with all redirects, without the time the user takes to decide."""
    redirects: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """A request of a `WebClient`."""

    url: str
    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    own: str = ""
    """A base address from the user's settings (never from a model), whose host may be in their own network.
    """
    downgrade: bool = False
    """True if a redirect may lead from https to http."""
    kept: bool = True
    """True if the response may be cached on disk and revalidated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebResponse:
    """A complete HTTP response, whatever its status."""

    url: str
    """The address after all redirects."""
    status: int
    headers: Mapping[str, str]
    """The headers, with names in lower case."""
    body: bytes
    redirects: tuple[str, ...] = ()
    """The addresses that redirected, the first one first."""
    revalidated: bool = False
    """True if the body is from the cache and the server confirmed that it is still valid."""


Permit = Callable[[str, str], Awaitable[None]]
"""A permission check: called with an address and the one that redirected to it, or ""; raises to refuse."""
Opened = Callable[[str], bool]
"""A function that returns whether the user's own rules permit an address that is otherwise refused."""


async def permit_all(url: str, source: str) -> None:
    """Permit every request, for callers that have no permission check."""


def nothing_opened(url: str) -> bool:
    """Return False, for callers without rules that permit further addresses."""
    return False


class WebClient:
    """A client for requests of one home folder. `network` defaults to the one that `environ` configures."""

    def __init__(
        self,
        *,
        secrets: Mapping[str, str] | None = None,
        network: Network | None = None,
        environ: Mapping[str, str] = os.environ,
        limits: WebLimits | None = None,
        cache: PageCache | None = None,
    ) -> None:
        chosen = network or chosen_network()
        self.network = chosen or outgoing_network(environ)
        """The network for public hosts."""
        self._near = chosen or SystemNetwork()
        self.secrets = dict(secrets or {})
        self._scan = SecretScan(self.secrets)
        self.limits = limits or WebLimits()
        self._cache = cache

    def check(self, url: str, *, base: WebAddress | None = None) -> WebAddress:
        """Parse an address, relative to the page `base` if it is given. Raises `WebError` if it is malformed
        or refused even with permission.
        """
        found = self._read(url, base)
        if (why := refusal(found)) is not None:
            raise _refusal(found, why)
        return found

    def secret_in(self, text: str) -> str | None:
        """Return the name of a known secret that a text contains; None if it contains none."""
        return self._scan.find(text.encode("utf-8", "replace"))

    async def fetch(
        self,
        request: WebRequest,
        *,
        permit: Permit = permit_all,
        opened: Opened = nothing_opened,
        limits: WebLimits | None = None,
    ) -> WebResponse:
        """Return the response to a request after redirects. Raises `WebError`, and `permit`'s errors."""
        limits = limits or self.limits
        here, led, source = self._read(request.url, None), (), ""
        is_own = self._is_own(here, request, opened)
        left = limits.seconds
        loop = asyncio.get_running_loop()
        while True:
            if not is_own and (why := refusal(here)) is not None:
                raise _refusal(here, why, source)
            self._refuse_secret(here, request.body)
            await permit(here.url, source)
            began = loop.time()
            try:
                async with asyncio.timeout(left):
                    answer = await self._ask(here, request, limits, is_own=is_own)
            except TimeoutError:
                sentence = f"{here.authority} did not answer within {limits.seconds:g} s; try again later."
                raise WebError(sentence, "time") from None
            left -= loop.time() - began
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return replace(answer, redirects=led)
            led = (*led, here.url)
            if len(led) > limits.redirects:
                raise WebError(f"{here.authority} redirects more than {limits.redirects} times.", "redirects")
            there = self._read(location, here)
            if here.is_encrypted and not there.is_encrypted and not request.downgrade:
                raise WebError(
                    f"{here.authority} redirects to {there.url} without encryption, which is not followed; "
                    "fetch that address itself if it is meant.",
                    "redirects",
                )
            same = there.origin == here.origin
            is_own = is_own and same and self._is_own(there, request, opened)
            request = _following(request, answer.status, same=same)
            here, source = there, here.url

    def _read(self, url: str, base: WebAddress | None) -> WebAddress:
        try:
            return web_address(url, base=base)
        except AddressError as error:
            raise WebError(str(error), "form") from None

    def _is_own(self, found: WebAddress, request: WebRequest, opened: Opened) -> bool:
        if request.own:
            return self._read(request.own, None).origin == found.origin
        return opened(found.url)

    def _refuse_secret(self, found: WebAddress, body: bytes) -> None:
        """Raise `WebError` for a request that contains a known secret in its address or body."""
        name = self._scan.find(found.path.encode()) or self._scan.find_in_host(found.host)
        if name is None and body:
            name = self._scan.find(body)
        if name is not None:
            raise WebError(
                f"What was to leave for {found.authority} holds the secret {name}; secrets never leave.",
                "secret",
            )

    async def _ask(
        self, found: WebAddress, request: WebRequest, limits: WebLimits, *, is_own: bool
    ) -> WebResponse:
        """Send one request and return its response, without following redirects."""
        sent = {
            "User-Agent": AGENT,
            "Accept": "text/html,application/xhtml+xml,application/json;q=0.9,text/plain;q=0.9,*/*;q=0.8",
            "Accept-Language": "en,*;q=0.5",
            "Accept-Encoding": "gzip, deflate",
            **request.headers,
            "Host": found.authority,
            "Connection": "close",
        }
        cache = self._cache if request.kept and not is_own and request.method == "GET" else None
        if cache is not None and {"cookie", "authorization"} & {name.lower() for name in sent}:
            cache = None
        lower = {name.lower(): value for name, value in sent.items()}
        before = None if cache is None else await asyncio.to_thread(cache.find, found.url, lower)
        if before is not None:
            sent |= before.conditions()
        answer = await self._exchange(found, request, sent, limits, is_own=is_own)
        if answer.status == 304 and before is not None:
            return _same(answer, before)
        if cache is not None and answer.status == 200 and "set-cookie" not in answer.headers:
            await asyncio.to_thread(cache.keep, found.url, lower, answer.headers, answer.body)
        return answer

    async def _exchange(
        self,
        found: WebAddress,
        request: WebRequest,
        sent: Mapping[str, str],
        limits: WebLimits,
        *,
        is_own: bool,
    ) -> WebResponse:
        import httpcore2

        context = await asyncio.to_thread(tls_context) if found.is_encrypted else None
        backend = CheckedBackend(self._near if is_own else self.network, is_own=is_own)
        url = httpcore2.URL(
            scheme=found.scheme.encode(),
            host=found.host.encode(),
            port=found.port,
            target=found.path.encode(),
        )
        headers = [(name.encode("ascii"), value.encode("latin-1", "replace")) for name, value in sent.items()]
        # A separate pool: no later request gets a connection that was checked for another one.
        try:
            async with (
                httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=backend) as pool,
                pool.stream(request.method, url, headers=headers, content=request.body or None) as response,
            ):
                return await self._answer_of(found, response, limits)
        except RefusedAddressError as error:
            raise _refusal(found, str(error)) from None
        except UnreachableError as error:
            raise WebError(f"{found.authority} {error}.", "unreachable") from None
        except PackedError as error:
            raise WebError(f"{found.authority} {error}.", "packed") from None
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.UnsupportedProtocol,
            OSError,
        ) as error:
            cause = address_text(str(error).strip().rstrip(".")) or "the connection broke off"
            raise WebError(f"{found.authority} cannot be reached: {cause}.", "unreachable") from None

    async def _answer_of(
        self, found: WebAddress, response: httpcore2.Response, limits: WebLimits
    ) -> WebResponse:
        headers: dict[str, str] = {}
        for raw_name, raw_value in response.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limits.size:
            raise _too_large(found, limits.size)
        unpacker, count, body = Unpacker(headers.get("content-encoding", ""), limits.unpacked), 0, bytearray()
        async for piece in response.aiter_stream():
            count += len(piece)
            if count > limits.size:
                raise _too_large(found, limits.size)
            for start in range(0, len(piece), _SLICE):
                body += unpacker.feed(piece[start : start + _SLICE])
                if len(body) > _MUCH:
                    await asyncio.sleep(0)
        return WebResponse(url=found.url, status=response.status, headers=headers, body=bytes(body))


_SLICE = 16 * 1024
"""The number of compressed bytes processed at a time, so that other tasks can run."""
_MUCH = 256 * 1024


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context, cached because reading the system's certificates takes longer than most
    requests.
    """
    import httpx2

    return httpx2.create_ssl_context()


def _following(request: WebRequest, status: int, *, same: bool) -> WebRequest:
    """Return the request to send after a redirect. `same` means that it leads to the same origin."""
    if status not in (307, 308) and request.method == "POST":
        request = replace(request, method="GET", body=b"")
    if same:
        return request
    kept = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
    return replace(request, headers=kept, method="GET", body=b"", own="")


def _same(answer: WebResponse, before: KeptPage) -> WebResponse:
    headers = {
        **before.headers,
        **{name: answer.headers[name] for name in ("date",) if name in answer.headers},
    }
    return replace(answer, status=200, headers=headers, body=before.body, revalidated=True)


def _refusal(found: WebAddress, why: str, source: str = "") -> WebError:
    which = f"{source} redirects to {found.authority}, which" if source else found.authority
    way = ""
    if not source and _can_be_opened(found):
        way = f"; `hermes permissions allow 'fetch({found.origin}/**)'` opens just this one"
    return WebError(f"{which} is never reached: it {why}{way}.", "address")


def _can_be_opened(found: WebAddress) -> bool:
    """Return whether a rule of the user may permit the host, which must be an address or `localhost`."""
    named = readings(found.host)
    return found.host == "localhost" or (bool(named) and not any(map(is_metadata, named)))


def _too_large(found: WebAddress, size: int) -> WebError:
    return WebError(f"{found.authority} sends more than {size / 1_000_000:g} MB, which is not taken.", "size")


@asynccontextmanager
async def client_proxy(client: WebClient, lets: Callable[[str], bool]) -> AsyncIterator[str]:
    """Run a proxy inside this context, for those hosts that `lets` accepts; yield the proxy's address.

    It checks addresses and searches for secrets as the client does. `lets` is called in a separate thread.
    """

    async def decide(host: str, port: int) -> str | None:
        return None if port in (80, 443) and lets(host) else "is not what this search was let through for"

    listener = socket.create_server(("127.0.0.1", 0))
    proxy = EgressProxy(decide, secrets=client.secrets, network=client.network)
    proxy.start()
    proxy.listen(listener)
    try:
        host, port = listener.getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        await asyncio.to_thread(proxy.close)


_LOOPBACK = ("127.0.0.1", "::1")


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """A network backend that resolves a name once, checks every address and connects to one of them.

    `is_own` means that the user has listed this very address. It is then allowed anywhere, except where
    credentials are returned.
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
        addresses = await (
            self._own(host, port) if self._is_own else resolve_allowed(self._network, host, port)
        )
        connection = await connect_first(self._network, addresses, port)
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
    """A connection in the form that the HTTP library uses. It ignores timeouts, which the client enforces."""

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
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is the library's
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
