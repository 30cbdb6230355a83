"""The address of a request, read once: what was checked is what is asked for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from agent.core.net.addresses import canonical, readings, refused_among, refused_name

LONGEST = 8_000
"""Characters of an address."""
_PORTS = {"http": 80, "https": 443}
_STEERING = re.compile(r"[\x00-\x20\x7f\\\u2028\u2029]")
_KEPT = "!$%&'()*+,-./:;=?@[]_~"
"""What stays as it is in a path or query; everything else is written with a percent sign."""


class AddressError(ValueError):
    """An address that is not asked for. The text is a sentence for person and model."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https address in the form in which it is asked for."""

    scheme: str
    host: str
    """Folded, in ASCII, without brackets."""
    port: int
    path: str
    """Path and query, in ASCII."""
    fragment: str = ""

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """Scheme, host and port, spelled one way."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host, and port where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address without its fragment, which never leaves."""
        return f"{self.origin}{self.path}"


def web_address(url: str, *, base: WebAddress | None = None) -> WebAddress:
    """Read an address, that of a link on the page `base` if one is given. Raises `AddressError`."""
    text = url.strip(" \t\r\n")
    if len(text) > LONGEST:
        raise AddressError(f"The address {shown(text)} is longer than {LONGEST:,} characters.")
    if _STEERING.search(text):
        raise AddressError(
            f"The address {shown(text)} holds blanks, control characters or backslashes; write them as %20."
        )
    try:
        joined = text if base is None else urljoin(base.url, text)
        parts = urlsplit(joined)
        port = parts.port
    except ValueError:
        raise AddressError(f"{shown(text)} is no address that can be read.") from None
    if parts.scheme not in _PORTS:
        kind = f"{parts.scheme}: addresses" if parts.scheme else "addresses without http:// or https://"
        raise AddressError(f"{shown(text)} is not fetched: {kind} are not; use http or https.")
    if "@" in parts.netloc:
        raise AddressError("The address holds a user or password, which does not belong there; leave it out.")
    try:
        host = canonical(parts.hostname or "")
    except ValueError as error:
        raise AddressError(f"{shown(parts.hostname or text)} {error}.") from None
    port = _PORTS[parts.scheme] if port is None else port
    if not 0 < port < 65_536:
        raise AddressError(f"{shown(text)} has a port that does not exist.")
    path = quote(parts.path or "/", safe=_KEPT)
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return WebAddress(parts.scheme, host, port, path + query, parts.fragment)


def refusal(found: WebAddress) -> str | None:
    """Why a host is not reached whatever it resolves to, as a clause; None where resolving decides."""
    if (why := refused_name(found.host)) is not None:
        return why
    refused = refused_among(readings(found.host))
    return None if refused is None else refused[1]


def is_refused(url: str) -> bool:
    """Whether nothing is fetched from an address, as far as its spelling tells."""
    try:
        return refusal(web_address(url)) is not None
    except AddressError:
        return True


def shown(text: str) -> str:
    """An address as a sentence quotes it."""
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text[:200])
    return f"{plain}…" if len(text) > 200 else plain
