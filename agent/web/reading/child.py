"""The process that reads documents of strangers: bounded in memory, replaced when it fails.

Frames on the socket it inherits: four bytes of length, a JSON object, as many bytes as its `size` says.
The answer is a frame with `page`, or with `problem`, a clause.
"""

from __future__ import annotations

import json
import logging
import resource
import socket
import sys

MEMORY = 1_500_000_000
"""Bytes of address space."""


def main() -> None:
    """Answer until the other side closes."""
    logging.disable(logging.CRITICAL)
    connection = socket.socket(fileno=int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.setrecursionlimit(3_000)
    while (head := _exactly(connection, 4)) is not None:
        order = json.loads(_exactly(connection, int.from_bytes(head, "big")) or b"{}")
        data = _exactly(connection, order["size"]) or b""
        answer = json.dumps(_answer(order, data)).encode()
        connection.sendall(len(answer).to_bytes(4, "big") + answer)


def _answer(order: dict[str, object], data: bytes) -> dict[str, object]:
    from agent.web.reading.documents import read_document
    from agent.web.reading.page import UnreadableError

    try:
        page = read_document(
            data,
            str(order["content_type"]),
            str(order["url"]),
            wants_plain=bool(order["wants_plain"]),
            wants_links=bool(order["wants_links"]),
        )
    except UnreadableError as error:
        return {"problem": str(error)}
    except MemoryError:
        return {"problem": "takes more memory to read than it may"}
    except RecursionError:
        return {"problem": "is nested too deeply to be read"}
    except Exception as error:
        return {"problem": f"cannot be read ({type(error).__name__})"}
    return {"page": page.to_json()}


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        piece = connection.recv(min(1 << 20, size - len(found)))
        if not piece:
            return None
        found += piece
    return bytes(found)
