"""The interface of search services, the form of their results, and the class that tries them in turn."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from agent.core.net.door import Permit, WebClient, WebRequest, is_refused
from agent.errors import HermesError
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import DeniedError
from tools.text.words import shorten


@dataclass(frozen=True, slots=True)
class WebHit:
    """One search result, all of it untrusted text."""

    title: str
    url: str
    description: str = ""
    date: str = ""
    """The date, in the form that the service gives."""


class SearchError(HermesError):
    """A service returned no results. The text is a clause that follows the service's name."""


class SearchService(Protocol):
    """One search service."""

    @property
    def name(self) -> str:
        """The name in the settings."""
        ...

    @property
    def address(self) -> str:
        """The URL that receives the query. It is shown to the user who approves the search."""
        ...

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        """Return results, best first; empty if nothing was found. Raises `HermesError` and `DeniedError`."""
        ...

    async def close(self) -> None:
        """Stop the processes that this service started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """Base class of services that are queried over HTTP."""

    name: str
    address: str
    client: WebClient
    headers: Mapping[str, str]
    """Headers of each request, including the key, which is never part of a URL."""
    own: str = ""
    """The same URL if the user's settings name it; otherwise empty."""

    async def ask(self, path: str, permit: Permit, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return the JSON answer. Raises `SearchError` and what the `WebClient` raises."""
        headers = {"Accept": "application/json", **self.headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = WebRequest(
            url=f"{self.address.rstrip('/')}{path}",
            method="GET" if body is None else "POST",
            headers=headers,
            body=b"" if body is None else json.dumps(body, ensure_ascii=False).encode(),
            own=self.own,
            kept=False,
        )
        answer = await self.client.fetch(request, permit=permit)
        if answer.status != 200:
            why = {
                401: "did not take its key",
                402: "wants to be paid",
                403: "refused",
                429: "has had enough",
            }
            raise SearchError(f"{why.get(answer.status, 'failed')} (status {answer.status})")
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise SearchError("answered with something that is not JSON") from None

    async def close(self) -> None:
        return None


def hits(
    found: Any, *, title: str = "title", url: str = "url", description: str = "", date: str = ""
) -> list[WebHit]:
    """Return the results in a list of objects, given the names of their fields.

    Entries without a URL are left out.
    """
    if not isinstance(found, list):
        return []
    return [
        WebHit(
            text(each.get(title)) or text(each.get(url)),
            text(each.get(url)),
            text(each.get(description)) if description else "",
            text(each.get(date)) if date else "",
        )
        for each in found
        if isinstance(each, dict) and text(each.get(url)).startswith(("http://", "https://"))
    ]


def text(value: Any) -> str:
    """Return a field as one line of text; the items of a list are joined. Other values give an empty text."""
    if isinstance(value, list):
        value = " … ".join(each for each in value if isinstance(each, str))
    return " ".join(value.split()) if isinstance(value, str) else ""


def within(found: Any, *path: str) -> Any:
    """Return the value at `path` in nested objects; None if it does not exist."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


log = logging.getLogger(__name__)

REST = 600.0
"""Seconds for which a service that failed is not queried again."""
_ALIKE = 3
"""The number of searches for similar words without results after which the model is warned."""
_TRACKING = lazy_pattern(r"(?:utm_\w+|gclid|fbclid|msclkid|ref|ref_src|source)\Z", re.IGNORECASE)
_REASON = 160
"""The maximum number of characters of one service's error among several."""
_UNREACHED = lazy_pattern(
    r"502 Hermes: |connection attempts failed|cannot be reached|connecterror|network is unreachable"
    r"|no route to host|name resolution|name or service not known|nodename nor serv|dns error|getaddrinfo",
    re.IGNORECASE,
)
"""Error messages of libraries if a host cannot be reached."""


@dataclass(frozen=True, slots=True)
class RingAnswer:
    """The results of a search, and which services gave any."""

    hits: tuple[WebHit, ...]
    served_by: tuple[str, ...]
    passed: tuple[tuple[str, str], ...]
    """Services that gave no results, each with the reason as a clause."""
    dropped: int
    """The number of results left out because requests may never go to their URLs."""
    is_circling: bool = False
    """Whether searches for similar words keep finding nothing."""


class SearchRing:
    """The search services of one session, in order of preference."""

    def __init__(
        self, services: Sequence[SearchService], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._services = tuple(services)
        self._clock = clock
        self._resting: dict[str, tuple[float, str]] = {}
        self._empty: deque[frozenset[str]] = deque(maxlen=_ALIKE)

    @property
    def routes(self) -> tuple[tuple[str, str], ...]:
        """Name and URL of each service that would be queried now; of all services if every one is paused."""
        return tuple((each.name, each.address) for each in self._awake())

    def _awake(self) -> list[SearchService]:
        now = self._clock()
        awake = [each for each in self._services if self._resting.get(each.name, (0.0, ""))[0] <= now]
        return awake or list(self._services)

    async def search(self, query: str, limit: int, permit: Permit) -> RingAnswer:
        """Return the results of the first service that has any, and of the next one if those are few.

        Raises `SearchError` if every service failed, and `DeniedError` if none was permitted.
        """
        found: dict[str, WebHit] = {}
        served: list[str] = []
        passed: list[tuple[str, str]] = []
        dropped, denied, answered = 0, None, False
        resting = {each.name for each in self._services} - {name for name, _ in self.routes}
        passed += [(name, self._resting[name][1]) for name in sorted(resting)]
        for service in self._awake():
            try:
                hits = await service.search(query, limit, permit)
            except DeniedError as error:
                denied = error
                passed.append((service.name, "was denied"))
                continue
            except (HermesError, TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                reason = str(error).rstrip(".") or type(error).__name__
                self._resting[service.name] = (self._clock() + REST, reason)
                passed.append((service.name, reason))
                continue
            except Exception as error:
                log.exception("the search service %s failed", service.name)
                self._resting[service.name] = (self._clock() + REST, type(error).__name__)
                passed.append((service.name, type(error).__name__))
                continue
            answered = True
            self._resting.pop(service.name, None)
            kept = [hit for hit in hits if not is_refused(hit.url)]
            dropped += len(hits) - len(kept)
            if not kept:
                passed.append((service.name, "found nothing"))
                continue
            served.append(service.name)
            for hit in kept:
                found.setdefault(_same(hit.url), hit)
            if len(found) * 2 >= min(limit, 10) or len(served) == 2:
                break
        if not found and not answered:
            if denied is not None and all(why == "was denied" for _, why in passed):
                raise denied
            if passed and all(_UNREACHED.search(why) for _, why in passed):
                names = ", ".join(name for name, _ in passed)
                raise SearchError(
                    f"No search service could be reached ({names}); this computer seems to be offline. "
                    "Search again when it is connected."
                )
            said = "; ".join(f"{name}: {shorten(why, _REASON)}" for name, why in passed)
            raise SearchError(f"No search service answered ({said or 'none is set up'}); see docs/web.md.")
        circling = not found and self._circles(query)
        if found:
            self._empty.clear()
        return RingAnswer(tuple(found.values())[:limit], tuple(served), tuple(passed), dropped, circling)

    def _circles(self, query: str) -> bool:
        words = frozenset(re.findall(r"\w+", query.lower()))
        alike = all(len(words & each) * 2 >= len(words | each) for each in self._empty)
        if not alike:
            self._empty.clear()
        self._empty.append(words)
        return len(self._empty) >= _ALIKE

    async def close(self) -> None:
        """Stop the processes of all services."""
        for each in self._services:
            await each.close()


def _same(url: str) -> str:
    """Return the part of a URL that identifies a page: without scheme, `www.`, fragment and tracking
    parameters.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    query = urlencode([pair for pair in parse_qsl(parts.query) if not _TRACKING.match(pair[0])])
    return f"{host}{parts.path.rstrip('/')}?{query}"
