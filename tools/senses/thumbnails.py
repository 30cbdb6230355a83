"""Pictures made as small as a place on the screen: in cells, as pixels or packed."""

from __future__ import annotations

import io
from dataclasses import dataclass

from tools.results import ToolError
from tools.senses.pictures import opened

CELL = (10, 20)
"""Pixels that a cell of the terminal is taken to have; one of a picture is never drawn larger."""
GROUND = (128, 128, 128)
"""What shines through where a picture is transparent: it suits writing in black and in white."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A picture that fits so many cells."""

    columns: int
    rows: int
    data: bytes
    """PNG if it is packed; else three bytes a pixel, one pixel wide and two high for each cell."""
    packed: bool = False


def cells(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Columns and rows of a picture of so many pixels, in its proportions, in at most so many. Pure."""
    across = min(columns, -(-width // CELL[0]))
    down = across * height / width * CELL[0] / CELL[1]
    if down > rows:
        across, down = rows * width / height * CELL[1] / CELL[0], rows
    return max(1, min(columns, round(across))), max(1, min(rows, round(down)))


def drawn(data: bytes, columns: int, rows: int, pixels: int) -> Thumbnail:
    """The picture in at most so many cells; packed with so many pixels a column, or 0: bare, for half blocks.

    Raises `ToolError` for what is no picture. Takes a while, and decodes what a stranger made.
    """
    from PIL import Image, ImageOps

    image = opened(data)
    try:
        image.seek(0)
        if image.format == "JPEG":
            image.draft("RGB", (columns * max(pixels, 1) * 2, rows * max(pixels, 1) * 4))
        upright = ImageOps.exif_transpose(image).convert("RGBA")
    except Exception as error:
        raise ToolError(f"The picture is damaged and cannot be read ({type(error).__name__}).") from error
    across, down = cells(upright.width, upright.height, columns, rows)
    if pixels:
        size = (across * pixels, down * pixels * 2)
        small = upright.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
        written = io.BytesIO()
        small.save(written, "PNG")
        return Thumbnail(across, down, written.getvalue(), packed=True)
    ground = Image.new("RGBA", upright.size, (*GROUND, 255))
    flat = Image.alpha_composite(ground, upright).convert("RGB")
    return Thumbnail(across, down, flat.resize((across, down * 2), Image.Resampling.BOX).tobytes())
