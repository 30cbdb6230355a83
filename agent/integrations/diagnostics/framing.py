"""Messages of the Language Server Protocol on a stream: a head with `Content-Length`, then JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

LARGEST = 8_000_000
"""Bytes of one message."""
_LARGEST_HEAD = 4_096
_MUCH = 100_000
"""Bytes from which on a message is read off the event loop."""
_LENGTH = re.compile(rb"^content-length:[ \t]*([0-9]{1,10})[ \t]*$", re.IGNORECASE | re.MULTILINE)


class FramingError(Exception):
    """What came is no message; the text says why, as a clause."""


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as bytes."""
    data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"Content-Length: %d\r\n\r\n" % len(data) + data


async def read_message(reader: asyncio.StreamReader) -> tuple[dict[str, Any], int] | None:
    """The next message and its bytes; None at the end. Raises `FramingError`."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise FramingError("it sent something else than messages") from error
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    found = _LENGTH.search(head.replace(b"\r", b""))
    if found is None or len(head) > _LARGEST_HEAD:
        raise FramingError("it sent something else than messages")
    size = int(found.group(1))
    if size > LARGEST:
        raise FramingError(f"it sent a message of {size:,} bytes")
    try:
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        message = await asyncio.to_thread(json.loads, data) if size > _MUCH else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FramingError("it sent a message that is no JSON") from error
    if not isinstance(message, dict):
        raise FramingError("it sent a message that is no object")
    return message, size
