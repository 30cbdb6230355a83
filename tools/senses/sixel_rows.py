"""Pictures as sixel graphics, a strip of its own for each row of the terminal.

So a row is drawn, moved and left out like a row of text. The colours are the same in all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

COLOURS = 64
"""Colours of a picture. More are hardly seen at such a size, and each is drawn over each six lines."""
BAND = 6
"""Lines of pixels that one sign of sixel holds."""
_RUN = re.compile(rb"(.)\1{3,}", re.DOTALL)


def sixel_rows(image: Image.Image, height: int) -> list[bytes]:
    """The picture in strips of `height` lines each, as sequences for the terminal. Takes a while."""
    from PIL import Image

    few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette = few.getpalette() or []
    pixels, width = few.tobytes(), few.width
    return [
        _strip(pixels[top * width : (top + height) * width], width, height, palette)
        for top in range(0, few.height, height)
    ]


def _strip(pixels: bytes, width: int, height: int, palette: list[int]) -> bytes:
    """One sequence; what is left below the last line stays as it was on the terminal."""
    used = sorted(set(pixels))
    colours = b"".join(
        b"#%d;2;%d;%d;%d" % (each, *(round(part / 2.55) for part in palette[each * 3 : each * 3 + 3]))
        for each in used
    )
    bands = b"-".join(
        _band(pixels[top * width : (top + BAND) * width], width) for top in range(0, height, BAND)
    )
    return b'\x1bP0;1;0q"1;1;%d;%d%s%s\x1b\\' % (width, height, colours, bands)


def _band(pixels: bytes, width: int) -> bytes:
    """Up to six lines: for each colour in them a line of signs that say where it is."""
    signs: dict[int, bytearray] = {}
    for line in range(len(pixels) // width):
        bit = 1 << line
        for place, colour in enumerate(pixels[line * width : (line + 1) * width]):
            row = signs.get(colour)
            if row is None:
                row = signs[colour] = bytearray(b"?" * width)
            row[place] += bit
    return b"$".join(b"#%d%s" % (colour, _short(bytes(row))) for colour, row in signs.items())


def _short(signs: bytes) -> bytes:
    """Signs with runs of the same one written short, and nothing behind the last that shows anything."""
    return _RUN.sub(lambda run: b"!%d%s" % (len(run[0]), run[1]), signs.rstrip(b"?"))
