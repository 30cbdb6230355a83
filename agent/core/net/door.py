"""The one door to the network for requests that tools make for the model.

http and https only; what is asked for is checked before the gate is asked, and the gate before a name is
resolved; every address a name leads to is checked, and one of those is connected to; every redirect is a
request of its own. Names and connections go through a `Network` (`agent.core.net.connecting`), so that a
test, or anybody who wants to see what leaves, can replace it: `Door(network=…)`, or
`agent.core.net.upstream.use_network(…)` around everything that opens a door.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from agent.core.net.addresses import is_metadata, readings
from agent.core.net.connecting import Network, RefusedAddressError, SystemNetwork, UnreachableError
from agent.core.net.door_url import AddressError, WebAddress, refusal, shown, web_address
from agent.core.net.page_cache import KeptPage, PageCache
from agent.core.net.secret_scan import SecretScan
from agent.core.net.unpacking import PackedError, Unpacker
from agent.core.net.upstream import chosen_network, way_out
from agent.errors import ExitCode, HermesError

if TYPE_CHECKING:
    import ssl

    import httpcore2

DoorErrorKind = Literal["address", "form", "secret", "redirects", "size", "time", "unreachable", "packed"]
"""Why nothing came: an address that is never reached, one that is malformed or of another kind, a secret in
it, too many or unsafe redirects, limits, nobody who answers, a body that cannot be unpacked."""

_REDIRECTS = (301, 302, 303, 307, 308)
_OWN_HEADERS = frozenset(("authorization", "cookie", "x-api-key", "x-subscription-token", "content-type"))
"""Headers that are for the host they were written for and no other one."""
AGENT = "Mozilla/5.0 (compatible; hermes-tui)"


class DoorError(HermesError):
    """A request that brought nothing. The text is a sentence."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, sentence: str, kind: DoorErrorKind) -> None:
        super().__init__(sentence)
        self.kind: DoorErrorKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """What one request may take."""

    size: int = 10_000_000
    """Bytes as they come in."""
    unpacked: int = 20_000_000
    """Bytes when they are unpacked."""
    seconds: float = 30.0
    """For the answer with all its redirects, waiting for a person not counted."""
    redirects: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRequest:
    """What is asked for."""

    url: str
    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    own: str = ""
    """A base address that the person's settings name: its own origin may lie in a network of theirs. Never
    anything that a model wrote."""
    downgrade: bool = False
    """Whether a redirect may lead from https to http."""
    kept: bool = True
    """Whether the answer may be kept on the disk and asked about again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorAnswer:
    """A complete answer, whatever its status."""

    url: str
    """Where it came from in the end."""
    status: int
    headers: Mapping[str, str]
    """With small letters."""
    body: bytes
    redirects: tuple[str, ...] = ()
    """Addresses that led there, the first one first."""
    revalidated: bool = False
    """Whether the body was kept from before, and is still the same."""


Permit = Callable[[str, str], Awaitable[None]]
"""Asks the gate about an address, and the address that led there (empty for the first). Raises to refuse."""
Opened = Callable[[str], bool]
"""Whether the person's own rules open an address that is refused otherwise."""


async def anybody(url: str, source: str) -> None:
    """Where no gate has to be asked."""


def nothing_opened(url: str) -> bool:
    """Where no rule opens anything."""
    return False


class Door:
    """Fetches, for one home. `network` None: the way out that `environ` names."""

    def __init__(
        self,
        *,
        secrets: Mapping[str, str] | None = None,
        network: Network | None = None,
        environ: Mapping[str, str] = os.environ,
        limits: DoorLimits | None = None,
        cache: PageCache | None = None,
    ) -> None:
        chosen = network or chosen_network()
        self.network = chosen or way_out(environ)
        """How public hosts are reached."""
        self._near = chosen or SystemNetwork()
        self.secrets = dict(secrets or {})
        self._scan = SecretScan(self.secrets)
        self.limits = limits or DoorLimits()
        self._cache = cache

    def check(self, url: str, *, base: WebAddress | None = None) -> WebAddress:
        """Read an address. Raises `DoorError` for one that is never asked for, whoever allows it."""
        found = self._read(url, base)
        if (why := refusal(found)) is not None:
            raise _refused(found, why)
        return found

    def secret_in(self, text: str) -> str | None:
        """The name of a known secret that a text holds."""
        return self._scan.find(text.encode("utf-8", "replace"))

    async def fetch(
        self,
        request: DoorRequest,
        *,
        permit: Permit = anybody,
        opened: Opened = nothing_opened,
        limits: DoorLimits | None = None,
    ) -> DoorAnswer:
        """The answer to a request. Raises `DoorError`, and whatever `permit` raises."""
        limits = limits or self.limits
        here, led, source = self._read(request.url, None), (), ""
        is_own = self._is_own(here, request, opened)
        left = limits.seconds
        loop = asyncio.get_running_loop()
        while True:
            if not is_own and (why := refusal(here)) is not None:
                raise _refused(here, why, source)
            self._look(here, request.body)
            await permit(here.url, source)
            began = loop.time()
            try:
                async with asyncio.timeout(left):
                    answer = await self._ask(here, request, limits, is_own=is_own)
            except TimeoutError:
                sentence = f"{here.authority} did not answer within {limits.seconds:g} s; try again later."
                raise DoorError(sentence, "time") from None
            left -= loop.time() - began
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return replace(answer, redirects=led)
            led = (*led, here.url)
            if len(led) > limits.redirects:
                raise DoorError(
                    f"{here.authority} redirects more than {limits.redirects} times.", "redirects"
                )
            there = self._read(location, here)
            if here.is_encrypted and not there.is_encrypted and not request.downgrade:
                raise DoorError(
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
            raise DoorError(str(error), "form") from None

    def _is_own(self, found: WebAddress, request: DoorRequest, opened: Opened) -> bool:
        if request.own:
            return self._read(request.own, None).origin == found.origin
        return opened(found.url)

    def _look(self, found: WebAddress, body: bytes) -> None:
        """Refuse what carries a secret out."""
        name = self._scan.find(found.path.encode()) or self._scan.find_in_host(found.host)
        if name is None and body:
            name = self._scan.find(body)
        if name is not None:
            raise DoorError(
                f"What was to leave for {found.authority} holds the secret {name}; secrets never leave.",
                "secret",
            )

    async def _ask(
        self, found: WebAddress, request: DoorRequest, limits: DoorLimits, *, is_own: bool
    ) -> DoorAnswer:
        """One request, without redirects."""
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
        request: DoorRequest,
        sent: Mapping[str, str],
        limits: DoorLimits,
        *,
        is_own: bool,
    ) -> DoorAnswer:
        import httpcore2

        from agent.core.net.door_stream import CheckedBackend

        context = await asyncio.to_thread(_tls) if found.is_encrypted else None
        backend = CheckedBackend(self._near if is_own else self.network, is_own=is_own)
        url = httpcore2.URL(
            scheme=found.scheme.encode(),
            host=found.host.encode(),
            port=found.port,
            target=found.path.encode(),
        )
        headers = [(name.encode("ascii"), value.encode("latin-1", "replace")) for name, value in sent.items()]
        # A pool of its own: no later request gets a connection that was checked for another one.
        try:
            async with (
                httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=backend) as pool,
                pool.stream(request.method, url, headers=headers, content=request.body or None) as response,
            ):
                return await self._taken(found, response, limits)
        except RefusedAddressError as error:
            raise _refused(found, str(error)) from None
        except UnreachableError as error:
            raise DoorError(f"{found.authority} {error}.", "unreachable") from None
        except PackedError as error:
            raise DoorError(f"{found.authority} {error}.", "packed") from None
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.UnsupportedProtocol,
            OSError,
        ) as error:
            cause = shown(str(error).strip().rstrip(".")) or "the connection broke off"
            raise DoorError(f"{found.authority} cannot be reached: {cause}.", "unreachable") from None

    async def _taken(self, found: WebAddress, response: httpcore2.Response, limits: DoorLimits) -> DoorAnswer:
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
        return DoorAnswer(url=found.url, status=response.status, headers=headers, body=bytes(body))


_SLICE = 16 * 1024
"""Bytes that are unpacked at a time, so that nothing else has to wait."""
_MUCH = 256 * 1024


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates of the system takes longer than most answers."""
    import httpx2

    return httpx2.create_ssl_context()


def _following(request: DoorRequest, status: int, *, same: bool) -> DoorRequest:
    """The request as it is made where a redirect leads."""
    if status not in (307, 308) and request.method == "POST":
        request = replace(request, method="GET", body=b"")
    if same:
        return request
    kept = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
    return replace(request, headers=kept, method="GET", body=b"", own="")


def _same(answer: DoorAnswer, before: KeptPage) -> DoorAnswer:
    headers = {
        **before.headers,
        **{name: answer.headers[name] for name in ("date",) if name in answer.headers},
    }
    return replace(answer, status=200, headers=headers, body=before.body, revalidated=True)


def _refused(found: WebAddress, why: str, source: str = "") -> DoorError:
    which = f"{source} redirects to {found.authority}, which" if source else found.authority
    way = ""
    if not source and _can_be_opened(found):
        way = f"; `hermes permissions allow 'fetch({found.origin}/**)'` opens just this one"
    return DoorError(f"{which} is never reached: it {why}{way}.", "address")


def _can_be_opened(found: WebAddress) -> bool:
    """Whether a rule of the person may open it: it is an address or `localhost`, named as such."""
    named = readings(found.host)
    return found.host == "localhost" or (bool(named) and not any(map(is_metadata, named)))


def _too_large(found: WebAddress, size: int) -> DoorError:
    return DoorError(
        f"{found.authority} sends more than {size / 1_000_000:g} MB, which is not taken.", "size"
    )
