"""The text a person would see on a terminal after some bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.terminal.backend import COLUMNS, ROWS
from tools.text.safe_text import clean

RAW_LIMIT = 262_144
"""Bytes kept and played back, up to twice as many; the emulator manages about a megabyte a second."""

_HISTORY = 5_000


class ScreenRecording:
    """The newest bytes that went to a terminal. `feed` runs on the reader's thread."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_whole = True
        """Whether nothing had to be dropped yet."""

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > 2 * RAW_LIMIT:
            del self._data[:-RAW_LIMIT]
            self.is_whole = False

    def data(self) -> bytes:
        return bytes(self._data)


def render(data: bytes, *, history: bool) -> str:
    """The screen after `data`, with the lines that scrolled off it above if `history`.

    Takes some tenths of a second for a full recording: for a thread.
    """
    import pyte

    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=_HISTORY if history else 1, ratio=0.5)
    stream = pyte.ByteStream(screen)
    try:
        stream.feed(data)
    except Exception:
        # The emulator gives up on some sequences that programs do send; the plain text is still worth having.
        return clean(data.decode("utf-8", "replace"))
    lines = list(screen.display)
    if history:
        lines = [_row(row, COLUMNS) for row in screen.history.top] + lines
    return clean("\n".join(line.rstrip() for line in lines)).strip("\n")


def _row(row: Mapping[int, Any], width: int) -> str:
    return "".join(row[column].data for column in range(width))
