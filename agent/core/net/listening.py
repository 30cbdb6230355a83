"""TCP ports that programs listen on, asked of the kernel by a socket of their network."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP = 20, 0x301
_DONE, _ERROR = 3, 2
_LISTEN = 1 << 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48x")
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """One port that is listened on; `is_v6` where only connections of IPv6 reach it for sure."""

    port: int
    is_v6: bool = False


def listeners(watch: socket.socket) -> frozenset[ListeningPort]:
    """The ports that loopback reaches, in the network that `watch`, a `NETLINK_SOCK_DIAG` socket, belongs to.

    Where a port is listened on by both versions, IPv4 is named. Raises `OSError`.
    """
    found = [each for family in (socket.AF_INET, socket.AF_INET6) for each in _of_family(watch, family)]
    plain = {each.port for each in found if not each.is_v6}
    return frozenset(each for each in found if not each.is_v6 or each.port not in plain)


def _of_family(watch: socket.socket, family: int) -> Iterator[ListeningPort]:
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN)
    watch.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
    while True:
        data = watch.recv(_LARGEST)
        while len(data) >= _HEADER.size:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", data, _HEADER.size)
                raise OSError(-code, "the kernel does not tell who listens")
            (port,) = struct.unpack_from(">H", data, _HEADER.size + 4)
            address = data[_HEADER.size + 8 : _HEADER.size + 24]
            if (reached := _reached(family, address)) is not None:
                yield ListeningPort(port, reached)
            data = data[(length + 3) & ~3 :]


def _reached(family: int, address: bytes) -> bool | None:
    """Whether it takes IPv6 to reach an address by loopback; None where loopback does not."""
    if family == socket.AF_INET:
        return False if address[:4] == bytes(4) or address[0] == 127 else None
    return True if address in (bytes(16), bytes(15) + b"\x01") else None
