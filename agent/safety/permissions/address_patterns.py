"""Patterns for addresses (`https://docs.python.org/**`, `*.example.com`) and for tools of servers."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from posixpath import normpath
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


class AddressPattern:
    """A URL glob: `*` stays within one part of a path, `**` does not.

    A pattern may be a host alone; a rule that allows then means http and https on
    their usual ports. Raises `ValueError` with a clause that says what is wrong.
    """

    def __init__(self, text: str) -> None:
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "", text
        host, slash, path = rest.partition("/")
        if not host or "@" in host or any(char.isspace() for char in text):
            raise ValueError("names no host")
        name, _, port = host.rpartition(":") if re.search(r":(?:\d+|\*)$", host) else (host, "", "")
        self._scheme = scheme.lower()
        self._host = _host(name.removeprefix("[").removesuffix("]"))
        self._port = port
        self._path = f"/{path}" if slash and path else "/**"

    @property
    def is_exact_place(self) -> bool:
        """Whether it names one address, or `localhost`, with scheme and port, and no pattern there."""
        if self._scheme not in ("http", "https") or not self._port.isdigit():
            return False
        try:
            return self._host == "localhost" or str(ip_address(self._host)) == self._host
        except ValueError:
            return False

    def covers(self, url: str) -> bool:
        """To the letter, for rules that allow: known scheme, usual port, nothing hidden in the address."""
        parts = _parts(url)
        if parts is None or parts.username is not None or parts.password is not None:
            return False
        schemes = (self._scheme,) if self._scheme not in ("", "*") else ("http", "https")
        if parts.scheme not in schemes or not self._is_host(parts):
            return False
        port = _port(parts)
        expected = self._port or str(_PORTS.get(parts.scheme))
        return expected in ("*", str(port)) and self._is_path(parts)

    def touches(self, url: str) -> bool:
        """Loosely, for rules that ask or deny: any scheme and port that the pattern does not rule out.

        An address that cannot be read is covered by every pattern.
        """
        parts = _parts(url)
        if parts is None:
            return True
        if (
            self._scheme not in ("", "*")
            and {self._scheme, parts.scheme} - {"http", "https"}
            and (self._scheme != parts.scheme)
        ):
            return False
        if not self._is_host(parts) or (self._port not in ("", "*") and self._port != str(_port(parts))):
            return False
        return self._is_path(parts)

    def _is_host(self, parts: SplitResult) -> bool:
        return glob(self._host).fullmatch(_host(parts.hostname or "")) is not None

    def _is_path(self, parts: SplitResult) -> bool:
        path = unquote(parts.path or "/")
        closing = "/" if path.endswith("/") else ""
        tidy = normpath(path).replace("//", "/").rstrip("/") + closing
        return glob(self._path).fullmatch(tidy or "/") is not None


def _parts(url: str) -> SplitResult | None:
    # Programs disagree about backslashes and control bytes in addresses, so there is no reading them.
    if re.search(r"[\x00-\x20\x7f\\]", url.strip()):
        return None
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.hostname else None


def _port(parts: SplitResult) -> int | None:
    return parts.port if parts.port is not None else _PORTS.get(parts.scheme)


def _host(name: str) -> str:
    name = name.lower().rstrip(".")
    try:
        return name.encode("idna").decode() if not name.isascii() else name
    except UnicodeError:
        return name


@lru_cache(maxsize=1_024)
def glob(text: str) -> re.Pattern[str]:
    """`**` as any text, `*` and `?` as text without a slash."""
    pieces = re.split(r"(/\*\*$|\*\*/|\*+|\?)", text)
    meaning = {"/**": "(?:/.*)?", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(
        meaning.get(piece, ".*" if set(piece) == {"*"} else re.escape(piece)) for piece in pieces if piece
    )
    return re.compile(expression, re.DOTALL)
