"""Listening TCP sockets, as the kernel lists them over netlink.

The kernel then looks at listening sockets only; for the tables in /proc it reads all connections, which takes
milliseconds.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP = 20, 0x301
_DONE, _ERROR = 3, 2
_LISTEN = 1 << 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48x")
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """One listening TCP socket. `address` has 16 bytes, of which IPv4 uses the first four."""

    port: int
    address: bytes
    inode: int
    """The number of the socket, which changes when a server is restarted."""


def listening(watch: socket.socket, family: int) -> Iterator[ListeningSocket]:
    """Yield the listening sockets in the network of the netlink socket `watch`. Raises `OSError`."""
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
            (inode,) = struct.unpack_from("=I", data, _HEADER.size + 68)
            yield ListeningSocket(port, data[_HEADER.size + 8 : _HEADER.size + 24], inode)
            data = data[(length + 3) & ~3 :]
