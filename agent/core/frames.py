"""JSON objects on a stream, each behind its length in four bytes: how Hermes speaks to its own processes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

MUCH = 100_000
"""Bytes from which on a frame is parsed off the event loop: about 2 ms."""


class FrameError(Exception):
    """What came is no frame; the text says why, as a clause."""


class LargeFrameError(FrameError):
    """A frame is larger than it may be."""


def framed(data: bytes) -> bytes:
    """The bytes of one object as they are sent."""
    return len(data).to_bytes(4, "big") + data


async def read_frame(reader: asyncio.StreamReader, largest: int) -> dict[str, Any] | None:
    """The next frame of at most `largest` bytes; None at the end of the stream, even amid a frame.

    Raises `FrameError`.
    """
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > largest:
            raise LargeFrameError(f"a frame of {size:,} bytes is too large")
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        frame = await asyncio.to_thread(json.loads, data) if size > MUCH else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame is not JSON: {error}") from error
    if not isinstance(frame, dict):
        raise FrameError("a frame is not an object")
    return frame
