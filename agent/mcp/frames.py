"""Frames between Hermes and the process of a server: four bytes of length, then a JSON object.

From Hermes: `call` (number, `method`, `arguments`), `cancel`, `answer` (of an `ask`), `close`.
From the process: `reply` (number, `value` or `error`), `ask` (number, `kind`, `params`), `event`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

LARGEST = 64_000_000
"""Bytes of a frame; the process of a server keeps what is larger in files."""
MUCH = 100_000
"""Bytes from which on a frame is read off the event loop."""


class FrameError(Exception):
    """What came is no frame."""


def packed(frame: Mapping[str, Any]) -> bytes:
    """A frame as bytes. Raises `FrameError` for one that is too large."""
    data = json.dumps(frame, ensure_ascii=True, separators=(",", ":"), default=str).encode("ascii")
    if len(data) > LARGEST:
        raise FrameError(f"a frame of {len(data):,} bytes is too large")
    return len(data).to_bytes(4, "big") + data


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame; None at the end. Raises `FrameError`."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > LARGEST:
            raise FrameError(f"a frame of {size:,} bytes is too large")
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        frame = await asyncio.to_thread(json.loads, data) if size > MUCH else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame is no JSON: {error}") from error
    if not isinstance(frame, dict):
        raise FrameError("a frame is no object")
    return frame
