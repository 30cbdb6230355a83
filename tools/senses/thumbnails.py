"""Pictures made as small as a place on the screen: in cells, as pixels or packed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

from tools.results import ToolError
from tools.senses.pictures import opened

CELL = (10, 20)
"""Pixels that a cell of the terminal is taken to have; one of a picture is never drawn larger."""
GROUND = (128, 128, 128)
"""What shines through where a picture is transparent: it suits writing in black and in white."""


Form = Literal["blocks", "png", "sixel"]
"""What a picture is made into."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A picture that fits so many cells."""

    columns: int
    rows: int
    data: bytes
    """For half blocks three bytes a pixel, one pixel wide and two high for each cell; or PNG; or for sixel
    the same as for half blocks, and behind it a sequence for each row, with line feeds between them."""
    form: Form = "blocks"


def cells(width: int, height: int, columns: int, rows: int, cell: tuple[int, int] = CELL) -> tuple[int, int]:
    """Columns and rows of a picture of so many pixels, in its proportions, in at most so many. Pure."""
    across = min(columns, -(-width // cell[0]))
    down = across * height / width * cell[0] / cell[1]
    if down > rows:
        across, down = rows * width / height * cell[1] / cell[0], rows
    return max(1, min(columns, round(across))), max(1, min(rows, round(down)))


def drawn(
    data: bytes, columns: int, rows: int, form: Form = "blocks", cell: tuple[int, int] = CELL
) -> Thumbnail:
    """The picture in at most so many cells, which have so many pixels across and down.

    Raises `ToolError` for what is no picture. Takes a while, and decodes what a stranger made.
    """
    from PIL import Image, ImageOps

    image = opened(data)
    try:
        image.seek(0)
        if image.format == "JPEG":
            image.draft("RGB", (columns * cell[0] * 2, rows * cell[1] * 2))
        upright = ImageOps.exif_transpose(image).convert("RGBA")
    except Exception as error:
        raise ToolError(f"The picture is damaged and cannot be read ({type(error).__name__}).") from error
    across, down = cells(upright.width, upright.height, columns, rows, cell)
    size = (across * cell[0], down * cell[1])
    if form == "png":
        small = upright.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
        written = io.BytesIO()
        small.save(written, "PNG")
        return Thumbnail(across, down, written.getvalue(), form)
    ground = Image.new("RGBA", upright.size, (*GROUND, 255))
    flat = Image.alpha_composite(ground, upright).convert("RGB")
    blocks = flat.resize((across, down * 2), Image.Resampling.BOX).tobytes()
    if form == "sixel":
        from tools.senses.sixel_rows import sixel_rows

        strips = sixel_rows(flat.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0), cell[1])
        return Thumbnail(across, down, blocks + b"\n".join(strips), form)
    return Thumbnail(across, down, blocks)
