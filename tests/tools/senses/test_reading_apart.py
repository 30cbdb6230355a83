"""Pictures read by a process of its own: as they are read here, and within its limits."""

from __future__ import annotations

import asyncio
import struct
import zlib

import pytest

from tests.support.images import png
from tools.results import ToolError
from tools.senses.pictures import fit
from tools.senses.reading_apart import fit_apart, thumbnail


def bomb(side: int) -> bytes:
    """A PNG that unpacks to so many pixels a side, and takes next to nothing packed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + side * 8)
    body = b"".join(packer.compress(row) for _ in range(200)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 16, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


async def test_it_gives_what_reading_here_would_give_and_says_what_is_wrong() -> None:
    data = png(300, 200)
    fitted, small, packed, *failed = await asyncio.gather(
        fit_apart(data),
        thumbnail(data, 30, 10),
        thumbnail(data, 30, 10, "png"),
        fit_apart(b"no picture"),
        thumbnail(bomb(30_000), 30, 10),
        return_exceptions=True,
    )
    assert fitted == fit(data)
    assert not isinstance(small, BaseException) and not isinstance(packed, BaseException)
    assert (small.columns, small.rows, len(small.data)) == (30, 10, 30 * 20 * 3)
    assert packed.form == "png" and packed.data.startswith(b"\x89PNG")
    assert [type(each) for each in failed] == [ToolError, ToolError]
    assert "100 million" in str(failed[1])


@pytest.mark.thorough
async def test_a_picture_that_unpacks_to_more_than_the_memory_it_may_take_ends_the_reader_only() -> None:
    with pytest.raises(ToolError, match=r"memory|damaged|cannot be read"):
        await thumbnail(bomb(9_990), 60, 14)
