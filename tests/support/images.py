"""Small real images, written by hand."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path


def png(width: int = 4, height: int = 4, padding: int = 0, rows: int | None = None) -> bytes:
    """A PNG of one colour; `padding` bytes follow its end, which readers ignore.

    With fewer `rows` than its height it ends early, as a picture does that is announced to be huge.
    """

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    drawn = (b"\0" + b"\x40\x80\xc0" * width) * (height if rows is None else rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(drawn)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body + b"\0" * padding


JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0" + b"\0" * 40
GIF = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff;"
WEBP = b"RIFF\x24\0\0\0WEBPVP8 " + b"\0" * 24


def write(path: Path, data: bytes | None = None) -> Path:
    """An image at `path`, with the folders it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png() if data is None else data)
    return path
