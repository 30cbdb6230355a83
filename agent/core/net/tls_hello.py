"""The first bytes of a TLS connection: which server they are meant for."""

from __future__ import annotations

import struct

LARGEST = 16 * 1024 + 5
"""Bytes of one record."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0


class HelloError(ValueError):
    """Bytes that begin like TLS and cannot be read."""


def is_tls(data: bytes) -> bool:
    """Whether a connection begins as TLS does; three bytes are enough to tell."""
    return len(data) >= 2 and data[0] == _HANDSHAKE and data[1] == 3


def missing(data: bytes) -> int:
    """Bytes of the first record that have not come yet."""
    if len(data) < 5:
        return 5 - len(data)
    (length,) = struct.unpack_from(">H", data, 3)
    return max(0, 5 + length - len(data))


def server_name(data: bytes) -> str | None:
    """The name that the client asks for, as it is written; None where it gives none.

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
