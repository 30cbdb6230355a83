"""Pictures as half blocks: each cell shows two pixels, the upper one in its text colour."""

from __future__ import annotations

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

UPPER = "▀"


def half_blocks(data: bytes, columns: int) -> list[Strip]:
    """Return the rows of a picture with three bytes per pixel, `columns` wide. Takes some milliseconds.

    The colour sequences are built here too, as they are most of the cost of drawing a row.
    """
    ink = _Inks()
    stride = columns * 3
    rows: list[Strip] = []
    for top in range(0, len(data) - 2 * stride + 1, 2 * stride):
        upper, lower = data[top : top + stride], data[top + stride : top + 2 * stride]
        cells = [
            Segment(UPPER, ink.of(upper[at : at + 3] + lower[at : at + 3])) for at in range(0, stride, 3)
        ]
        rows.append(Strip(cells, columns))
    return rows


class _Inks:
    """Styles of cells. Nearly equal colours share one style, to keep their number small."""

    def __init__(self) -> None:
        self._known: dict[bytes, Style] = {}

    def of(self, pixels: bytes) -> Style:
        near = bytes(each & 0xF8 | each >> 5 for each in pixels)
        style = self._known.get(near)
        if style is None:
            upper, lower = Color.from_rgb(*near[:3]), Color.from_rgb(*near[3:])
            style = self._known[near] = Style(color=upper, bgcolor=lower)
            Strip.render_ansi(style, ColorSystem.TRUECOLOR)
        return style
