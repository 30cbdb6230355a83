"""Reads sixel graphics as a terminal does, for tests."""

from __future__ import annotations

import re

from PIL import Image

_SEQUENCE = re.compile(r'\x1bP\d;1;\d+q"1;1;(\d+);(\d+)([^\x1b]*)\x1b\\')
_PIECE = re.compile(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|(\$)|(-)")


def decoded(sequence: str) -> Image.Image:
    """The picture of one sequence; what it leaves as it was is transparent. Raises `ValueError`."""
    whole = _SEQUENCE.fullmatch(sequence)
    if whole is None:
        raise ValueError(f"no sixel graphics: {sequence[:40]!r}")
    image = Image.new("RGBA", (int(whole[1]), int(whole[2])))
    palette: dict[int, tuple[int, int, int]] = {}
    colour = x = y = at = 0
    while at < len(whole[3]):
        piece = _PIECE.match(whole[3], at)
        if piece is None:
            raise ValueError(f"unknown: {whole[3][at : at + 20]!r}")
        at = piece.end()
        if piece[1]:
            red, green, blue = (round(int(part) * 2.55) for part in piece.group(2, 3, 4))
            palette[int(piece[1])] = (red, green, blue)
        elif piece[5]:
            colour = int(piece[5])
        elif piece[9]:
            x = 0
        elif piece[10]:
            x, y = 0, y + 6
        else:
            sign, count = (piece[7], int(piece[6])) if piece[6] else (piece[8], 1)
            for column in range(x, x + count):
                for bit in range(6):
                    if ord(sign) - 63 >> bit & 1:
                        image.putpixel((column, y + bit), (*palette[colour], 255))
            x += count
    return image
