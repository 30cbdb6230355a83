"""The child process's side of `tools.kit.children`: answers to requests over the socket that it inherits.

A request is four bytes with the length of a JSON object, the object, and as many bytes as its `size`
specifies. An answer is four bytes with a length, and as many bytes.
"""

from __future__ import annotations

import json
import logging
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any


def answer_orders(answered: Callable[[dict[str, Any], bytes], bytes]) -> None:
    """Answer requests with what `answered` returns, until the other side closes the socket."""
    logging.disable(logging.CRITICAL)
    connection = socket.socket(fileno=int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (head := _exactly(connection, 4)) is not None:
        order = json.loads(_exactly(connection, int.from_bytes(head, "big")) or b"{}")
        answer = answered(order, _exactly(connection, order["size"]) or b"")
        connection.sendall(len(answer).to_bytes(4, "big") + answer)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        piece = connection.recv(min(1 << 20, size - len(found)))
        if not piece:
            return None
        found += piece
    return bytes(found)
