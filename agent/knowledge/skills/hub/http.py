"""HTTP requests to a source: limited in time and size, and never redirected to another origin."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from agent.core.net.door import tls_context
from agent.knowledge.skills.hub.bundle import HubError, HubMissingError, HubRefusedError, HubUnreachableError
from agent.model.addresses import is_loopback
from tools.text.words import brief, plural

if TYPE_CHECKING:
    import httpx2

LARGEST_ANSWER = 8_000_000
"""The size limit of an index or a list, in bytes."""
LARGEST_ARCHIVE = 5_000_000
"""The size limit of a packed skill, in bytes."""

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_MISSING = (404, 410)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete answer with a success status."""

    url: str
    content: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        """Return the content as JSON. Raises `HubError`."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise HubError(f"{host(self.url)} answered with something that is not JSON.") from None


@dataclass(frozen=True, slots=True)
class HubHttp:
    """The settings for HTTP requests to sources. Times are in seconds."""

    connect: float = 8.0
    read: float = 15.0
    """The time limit for the next part of an answer to arrive."""
    whole: float = 90.0
    """The time limit of a whole answer."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Bearer tokens by origin; each is sent only to its origin."""

    def get(self, url: str, *, limit: int = LARGEST_ANSWER, accept: str = "application/json") -> HttpAnswer:
        """Return the answer to one GET; see `HubSession.get`."""
        with self.session(url) as session:
            return session.get(url, limit=limit, accept=accept)

    @contextmanager
    def session(self, url: str) -> Iterator[HubSession]:
        """Open a session for several requests to the host of `url` over the same connections."""
        import httpx2

        check_address(url)
        headers = {"Accept-Encoding": "identity", "User-Agent": "hermes-tui"}
        timeout = httpx2.Timeout(self.read, connect=self.connect)
        trust_env = not is_loopback(url)
        with httpx2.Client(
            timeout=timeout, trust_env=trust_env, headers=headers, verify=tls_context()
        ) as client:
            yield HubSession(self, client)


@dataclass(frozen=True, slots=True)
class HubSession:
    """Open connections to a source."""

    http: HubHttp
    client: httpx2.Client

    def get(self, url: str, *, limit: int = LARGEST_ANSWER, accept: str = "application/json") -> HttpAnswer:
        """Return the answer to a GET, of at most `limit` bytes.

        Raises `HubMissingError` for 404 and 410, and `HubUnreachableError` if no answer comes in time. Raises
        `HubRefusedError` for an answer that is too large or redirects to another origin, otherwise
        `HubError`.
        """
        import httpx2

        check_address(url)
        start, deadline = origin(url), time.monotonic() + self.http.whole
        headers = {"Accept": accept}
        if token := self.http.tokens.get(start):
            headers["Authorization"] = f"Bearer {token}"
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                with self.client.stream("GET", url, headers=headers) as response:
                    if response.status_code not in _REDIRECTS:
                        return self._read(url, response, limit, deadline)
                    target = urljoin(url, response.headers.get("Location", ""))
                check_address(target)
                if origin(target) != start:
                    raise HubRefusedError(
                        f"{host(url)} redirects to {host(target)}, which is not followed; "
                        "name that address as the source if you trust it."
                    )
                url = target
            raise HubRefusedError(f"{host(url)} redirects in a circle.")
        except httpx2.TimeoutException:
            raise HubUnreachableError(f"{host(url)} did not answer in time; try again later.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            said = re.sub(r"^\[Errno -?\d+\] ", "", str(error))
            cause = brief(said or type(error).__name__, 200).rstrip(".")
            raise HubUnreachableError(f"{host(url)} cannot be reached: {cause}.") from None

    def _read(self, url: str, response: httpx2.Response, limit: int, deadline: float) -> HttpAnswer:
        status = response.status_code
        if status in _MISSING:
            raise HubMissingError(f"{host(url)} has nothing at {brief(urlsplit(url).path, 160)}.")
        if status in (401, 403):
            mend = _after(response) or "; if it wants a token, name its variable in the source's token_env"
            raise HubError(f"{host(url)} refuses access (status {status}){mend}.")
        if status == 429 or status >= 500:
            raise HubUnreachableError(f"{host(url)} is busy or broken (status {status}){_after(response)}.")
        if status != 200:
            raise HubError(f"{host(url)} answered with status {status}.")
        if response.headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
            raise HubRefusedError(f"{host(url)} packed its answer, although it was asked not to.")
        length = response.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length) > limit:
            raise _too_large(url, limit)
        content = bytearray()
        for piece in response.iter_raw():
            content += piece
            if len(content) > limit:
                raise _too_large(url, limit)
            if time.monotonic() > deadline:
                raise HubUnreachableError(f"{host(url)} takes too long to answer; try again later.")
        return HttpAnswer(url, bytes(content), dict(response.headers))


def _after(response: httpx2.Response) -> str:
    seconds = response.headers.get("Retry-After", "")
    if seconds.isascii() and seconds.isdigit():
        return f"; try again in {plural(int(seconds), 'second')}"
    if response.headers.get("X-RateLimit-Remaining") == "0":
        return "; its limit of requests is used up, so try again later or set a token"
    return ""


def _too_large(url: str, limit: int) -> HubRefusedError:
    return HubRefusedError(f"{host(url)} sends more than {limit:,} bytes, which is not taken.")


def check_address(url: str) -> None:
    """Raise `HubRefusedError` for anything but an http(s) address without a user name and password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable or any(ord(each) < 33 or ord(each) == 127 for each in url):
        raise HubRefusedError(f"{brief(url, 160)!r} is not an http or https address.")
    if parts.username is not None or parts.password is not None:
        raise HubRefusedError("The address holds a user or password, which does not belong there.")


def origin(url: str) -> str:
    """Return scheme, host and port of an address as `scheme://host:port`."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def host(url: str) -> str:
    """Return the host name of an address, with a given port, for messages."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        return brief(f"{parts.hostname or url}{port}")
    except ValueError:
        return brief(url)
