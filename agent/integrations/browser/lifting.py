"""Addresses of this machine and its networks that the person's own rules open for the browser.

An allow rule of permissions.yaml lifts the refusal of private addresses for one origin only: a scheme, an
address or `localhost`, a port. It counts for what the model opens itself, and for what pages of such
origins ask for; a page from elsewhere reaches none of them, neither by a redirect nor by a request.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from agent.core.net.addresses import canonical, readings, refusal

_RULE = re.compile(
    r"(https?|\{http,https\}|wss?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?(?:/.*)?\Z"
)
_TOOLS = frozenset({"fetch", "browser_navigate"})
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, canonical host, port."""


def lifted_origins(rules: Iterable[Any]) -> frozenset[Origin]:
    """What allow rules of the person's own file name by address; wildcards and names count for nothing."""
    found: set[Origin] = set()
    for rule in rules:
        pattern = rule.subject.pattern
        if rule.verdict != "allow" or rule.origin != "permissions.yaml" or rule.subject.tool not in _TOOLS:
            continue
        matched = None if pattern is None else _RULE.match(pattern)
        if matched is None or matched[1] not in _PORTS:
            continue
        try:
            host = canonical(matched[2])
        except ValueError:
            continue
        if host != "localhost" and not _may_lift(host):
            continue
        found.add((matched[1], host, int(matched[3] or _PORTS[matched[1]])))
    return frozenset(found)


def _may_lift(host: str) -> bool:
    addresses = readings(host)
    return bool(addresses) and not any("credentials" in (refusal(each) or "") for each in addresses)


def origin_of(url: str) -> Origin | None:
    """The origin of an address; None where it has none."""
    try:
        parts = urlsplit(url)
        if parts.hostname is None or parts.scheme not in (*_PORTS, "ws", "wss"):
            return None
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        host = canonical(parts.hostname)
        return scheme, host, parts.port or _PORTS[scheme]
    except ValueError:
        return None


class Lifting:
    """Decides for the proxy whether a request to a lifted origin comes from where it may. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origins: frozenset[Origin] = frozenset()
        self._expected: frozenset[Origin] = frozenset()

    def set(self, origins: frozenset[Origin]) -> None:
        """The origins that are lifted from now on."""
        with self._lock:
            self._origins = origins

    def is_lifted(self, url: str) -> bool:
        """Whether an address is of a lifted origin."""
        return origin_of(url) in self._origins

    def expect(self, url: str) -> None:
        """The model opens this address next; what it opened before is no longer expected."""
        origin = origin_of(url)
        with self._lock:
            self._expected = frozenset() if origin is None else frozenset({origin})

    def allows(self, host: str, port: int, headers: Mapping[str, str], *, is_tunnel: bool) -> bool:
        """Whether a request to `host` may pass although its address is refused otherwise.

        `headers` are those of the request by lower-case name. What a tunnel carries is looked at by
        `allows_inside`, unless it is encrypted for an origin that the model opens itself.
        """
        with self._lock:
            origins, expected = self._origins, self._expected
        if is_tunnel:
            return any((scheme, host, port) in origins for scheme in _PORTS)
        if ("http", host, port) not in origins:
            return False
        if _from_lifted(headers, origins):
            return True
        site = headers.get("sec-fetch-site", "")
        if site == "same-origin":
            return True
        is_foreign = any(headers.get(name) for name in ("origin", "referer"))
        return not is_foreign and site in ("", "none") and ("http", host, port) in expected

    def allows_inside(self, host: str, port: int, headers: Mapping[str, str] | None) -> bool:
        """The same for the first request in a tunnel; `headers` is None where it is encrypted."""
        with self._lock:
            origins, expected = self._origins, self._expected
        if headers is None:
            return ("https", host, port) in origins & expected
        return ("http", host, port) in origins and _from_lifted(headers, origins)


def _from_lifted(headers: Mapping[str, str], origins: frozenset[Origin]) -> bool:
    said = [headers[name] for name in ("origin", "referer") if headers.get(name)]
    return bool(said) and all(origin_of(each) in origins for each in said)
