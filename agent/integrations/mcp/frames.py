"""Frames between Hermes and the process of a server: four bytes of length, then a JSON object.

From Hermes: `call` (number, `method`, `arguments`), `cancel`, `answer` (of an `ask`), `close`.
From the process: `reply` (number, `value` or `error`), `ask` (number, `kind`, `params`), `event`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from tools.kit import children
from tools.kit.children import LargeFrameError, framed

LARGEST = 64_000_000
"""Bytes of a frame; the process of a server keeps what is larger in files."""


def packed(frame: Mapping[str, Any]) -> bytes:
    """A frame as bytes. Raises `LargeFrameError`."""
    data = json.dumps(frame, ensure_ascii=True, separators=(",", ":"), default=str).encode("ascii")
    if len(data) > LARGEST:
        raise LargeFrameError(f"a frame of {len(data):,} bytes is too large")
    return framed(data)


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame; None at the end. Raises `FrameError`."""
    return await children.read_frame(reader, LARGEST)
