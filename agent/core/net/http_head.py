"""Parsing of the start of a connection: the head of an HTTP request, or the first message of TLS."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from agent.core.net.addresses import canonical

LONGEST_HEAD = 64 * 1024
"""The limit in bytes on a request line and its headers together."""
MOST_HEADERS = 200

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[^\x00\r\n]*")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_VERSION = re.compile(rb"HTTP/1\.[01]")
_HOP = frozenset(
    [
        *(b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade"),
        *(b"host", b"http2-settings"),
    ]
)
"""Headers that concern only one connection, and `Host`, which is set for each request."""


class RequestError(Exception):
    """Raised for a request that is not forwarded. `status` is the HTTP status of the response; the text is a
    sentence.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a client's request. `host` is in canonical form."""

    method: str
    host: str
    port: int
    framing: Literal["none", "length", "chunked"] = "none"
    """The way in which the end of the body is recognised."""
    length: int = 0
    """The size of the body in bytes, if `framing` is `length`."""
    onward: bytes = b""
    """The head as it is sent to the server; empty for a tunnel."""

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"


def parse(head: bytes) -> RequestHead:
    """Parse the head of a request including its final empty line. Raises `RequestError`."""
    line, *rest = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise RequestError(400, "The request line cannot be read.")
    if not _VERSION.fullmatch(words[2]):
        raise RequestError(505, "Only HTTP/1.1 is spoken here.")
    method, target = words[0], words[1].decode("ascii")
    headers = [_header(each) for each in rest]
    if len(headers) > MOST_HEADERS:
        raise RequestError(431, "The request has too many headers.")
    if method == b"CONNECT":
        host, port = _authority(target, None)
        return RequestHead("CONNECT", host, port)
    return _plain(method, target, headers)


def _plain(method: bytes, target: str, headers: list[tuple[bytes, bytes]]) -> RequestHead:
    scheme, _, _ = target.partition("://")
    if target.startswith("/") or target == "*":
        raise RequestError(400, "This is a proxy: the request has to name a host.")
    if scheme.lower() != "http":
        raise RequestError(501, f"Addresses with {scheme[:20]!r} are not passed on; a tunnel is.")
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise RequestError(400, "The address cannot be read.") from error
    if "@" in parts.netloc:
        raise RequestError(400, "An address with a user or a password is not passed on.")
    host, port = _authority(parts.netloc, 80)
    path = target.partition("://")[2][len(parts.netloc) :].partition("#")[0]
    framing, length = _framing(headers)
    kept = [(name, value) for name, value in headers if name.lower() not in _hop_headers(headers)]
    shown = f"[{host}]" if ":" in host else host
    named = shown if port == 80 else f"{shown}:{port}"
    lines = [
        b"%s %s HTTP/1.1" % (method, (path if path.startswith("/") else f"/{path}").encode("ascii")),
        b"Host: " + named.encode("ascii"),
        *(b"%s: %s" % each for each in kept),
        b"Connection: close",
    ]
    return RequestHead(method.decode("ascii"), host, port, framing, length, b"\r\n".join(lines) + b"\r\n\r\n")


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise RequestError(400, "A header cannot be read.")
    return name, value.strip(b" \t")


def _authority(text: str, usual: int | None) -> tuple[str, int]:
    """Split `text` into host and port, with the default port `usual`. Raises `RequestError`."""
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d{0,5}))?", text)
    number = found[2] if found is not None else None
    port = int(number) if number else usual
    if found is None or not found[1] or port is None or not 0 < port < 65_536:
        raise RequestError(400, "The request names no host and port.")
    try:
        return canonical(found[1]), port
    except ValueError as error:
        raise RequestError(400, f"The host of the request {error}.") from error


def _hop_headers(headers: list[tuple[bytes, bytes]]) -> frozenset[bytes]:
    named = [
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    ]
    # Headers that mark the end of the body stay, whatever a client says about them.
    return _HOP | frozenset(named) - {b"content-length", b"transfer-encoding"}


def _framing(headers: list[tuple[bytes, bytes]]) -> tuple[Literal["none", "length", "chunked"], int]:
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    codings = [value.lower() for name, value in headers if name.lower() == b"transfer-encoding"]
    if codings:
        if codings != [b"chunked"] or lengths:
            raise RequestError(400, "It is not clear where the body of the request ends.")
        return "chunked", 0
    if not lengths:
        return "none", 0
    if len(lengths) > 1 or not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
        raise RequestError(400, "It is not clear where the body of the request ends.")
    return "length", int(lengths[0])


class ChunkedEnd:
    """A detector for the end of a chunked body that arrives in pieces."""

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        """The bytes still to come of the current chunk and the line end after it."""
        self._in_trailer = False
        self.is_over = False

    def feed(self, data: bytes) -> int:
        """Process the next bytes; return how many of them belong to the body. Raises `RequestError`."""
        place = 0
        while place < len(data) and not self.is_over:
            if self._left:
                taken = min(self._left, len(data) - place)
                self._left -= taken
                place += taken
                continue
            end = data.find(b"\n", place)
            stop = len(data) if end < 0 else end + 1
            self._line += data[place:stop]
            place = stop
            if len(self._line) > LONGEST_HEAD:
                raise RequestError(400, "It is not clear where the body of the request ends.")
            if end >= 0:
                self._take_line()
        return place

    def _take_line(self) -> None:
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise RequestError(400, "It is not clear where the body of the request ends.")
        text = line[:-2]
        if self._in_trailer:
            self.is_over = text == b""
            return
        size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00\r\n]*)?", text)
        if size is None:
            raise RequestError(400, "It is not clear where the body of the request ends.")
        number = int(size[1], 16)
        self._in_trailer = number == 0
        self._left = number + 2 if number else 0


LARGEST = 16 * 1024 + 5
"""The size in bytes of the largest TLS record."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0


class HelloError(ValueError):
    """Raised for bytes that begin like TLS but cannot be parsed."""


def is_tls(data: bytes) -> bool:
    """Return whether a connection begins like TLS; two bytes are enough."""
    return len(data) >= 2 and data[0] == _HANDSHAKE and data[1] == 3


def missing(data: bytes) -> int:
    """Return how many bytes of the first record are missing, or of its header while that is incomplete."""
    if len(data) < 5:
        return 5 - len(data)
    (length,) = struct.unpack_from(">H", data, 3)
    return max(0, 5 + length - len(data))


def server_name(data: bytes) -> str | None:
    """Return the server name that the client requests, as written; None if it requests none.

    `data` holds the whole first record. Raises `HelloError`.
    """
    try:
        return _server_name(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise HelloError("the first record cannot be read") from error


def _server_name(data: bytes) -> str | None:
    (length,) = struct.unpack_from(">H", data, 3)
    record = _exactly(data, 5, length)
    if record[0] != _CLIENT_HELLO:
        raise HelloError("it does not begin with a client hello")
    hello = _exactly(record, 4, int.from_bytes(record[1:4], "big"))
    place = 34
    place += 1 + hello[place]
    place += 2 + struct.unpack_from(">H", hello, place)[0]
    place += 1 + hello[place]
    if place == len(hello):
        return None
    extensions = _exactly(hello, place + 2, struct.unpack_from(">H", hello, place)[0])
    place = 0
    while place < len(extensions):
        kind, size = struct.unpack_from(">HH", extensions, place)
        body = _exactly(extensions, place + 4, size)
        if kind == _SERVER_NAME:
            return _first_name(body)
        place += 4 + size
    return None


def _first_name(body: bytes) -> str:
    names = _exactly(body, 2, struct.unpack_from(">H", body, 0)[0])
    kind, size = struct.unpack_from(">BH", names, 0)
    if kind != 0 or len(names) != 3 + size:
        raise HelloError("it asks for several names")
    return _exactly(names, 3, size).decode("ascii")


def _exactly(data: bytes, start: int, size: int) -> bytes:
    found = data[start : start + size]
    if len(found) != size:
        raise HelloError("it ends too early")
    return found
