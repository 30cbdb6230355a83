"""Pictures for the model and for the screen: bounded decoding, scaling, thumbnails as Sixel."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tools.results import ToolError

if TYPE_CHECKING:
    from PIL import Image


LONGEST_SIDE = 1_568
"""Pixels of the longer side; models scale down larger pictures."""
MOST_BYTES = 5_000_000
"""The size limit in bytes of a sent picture."""
MOST_PIXELS = 100_000_000
"""The number of pixels above which a picture is not decoded."""
LARGEST_FILE = 50_000_000
"""The size limit in bytes of a picture file."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_QUALITIES = (85, 70, 50, 30)


@dataclass(frozen=True, slots=True)
class FitPicture:
    """A picture encoded for sending to a model."""

    data: bytes
    media_type: Literal["image/png", "image/jpeg"]
    width: int
    height: int
    original: tuple[int, int]
    """The original width and height, turned upright."""
    frames: int = 1
    """The number of pictures in the file; only the first is sent."""


def fit(data: bytes) -> FitPicture:
    """Scale and encode a picture for sending. Raises `ToolError` if the data is not a picture."""
    from PIL import ImageOps

    image = open_picture(data)
    try:
        frames = int(getattr(image, "n_frames", 1))
        image.seek(0)
        is_photo = image.format == "JPEG"
        size = image.size
        if is_photo:
            image.draft(
                "RGB", (LONGEST_SIDE * 2, LONGEST_SIDE * 2)
            )  # unpacked at a fraction where it is large
        turned = ImageOps.exif_transpose(image)
        turned = _plain(turned)
        turned.thumbnail((LONGEST_SIDE, LONGEST_SIDE), reducing_gap=3.0)
        packed, media = _packed(turned, is_photo)
    except ToolError:
        raise
    except Exception as error:  # its readers raise whatever they stumble over
        raise ToolError(f"The picture is damaged and cannot be read ({type(error).__name__}).") from error
    return FitPicture(packed, media, turned.width, turned.height, _upright(size, turned.size), frames)


def open_picture(data: bytes) -> Image.Image:
    """Open a picture without decoding its pixels. Raises `ToolError` if it is not a picture or too large."""
    from PIL import Image, UnidentifiedImageError

    if len(data) > LARGEST_FILE:
        raise ToolError(f"The picture has more than {LARGEST_FILE // 1_000_000} MB; scale it down.")
    if data[:400].lstrip().startswith((b"<svg", b"<?xml")) and b"<svg" in data[:4_000]:
        raise ToolError("This is an SVG, a text that draws; read it as a file, or convert it to PNG.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError:
        raise ToolError("This is not a png, jpeg, gif, webp, bmp or tiff picture.") from None
    except Image.DecompressionBombError:
        raise _too_many(0, 0) from None
    except Exception as error:
        raise ToolError(f"The picture is damaged and cannot be read ({type(error).__name__}).") from error
    if image.width * image.height > MOST_PIXELS:
        raise _too_many(*image.size)
    return image


def _too_many(width: int, height: int) -> ToolError:
    size = f"{width:,} × {height:,} pixels" if width else "too many pixels"
    return ToolError(f"The picture has {size}, more than {MOST_PIXELS // 1_000_000} million; scale it down.")


def _upright(size: tuple[int, int], shown: tuple[int, int]) -> tuple[int, int]:
    """Return `size`, with width and height swapped if the shown picture was rotated."""
    lies, shown_lies = size[0] >= size[1], shown[0] >= shown[1]
    return size if lies == shown_lies else (size[1], size[0])


def _plain(image: Image.Image) -> Image.Image:
    """Return the picture in a colour mode that both output formats support."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("RGB")


def _packed(image: Image.Image, is_photo: bool) -> tuple[bytes, Literal["image/png", "image/jpeg"]]:
    if not is_photo:
        data = _save_bare(image, "PNG", optimize=False)
        if len(data) <= MOST_BYTES:
            return data, "image/png"
    flat = image
    if image.mode == "RGBA":
        from PIL import Image as Images

        flat = Images.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A"))
    tried = (_save_bare(flat, "JPEG", quality=quality) for quality in _QUALITIES)
    data = next((each for each in tried if len(each) <= MOST_BYTES), None)
    if data is None:
        raise ToolError("The picture cannot be made small enough to be sent; scale it down.")
    return data, "image/jpeg"


def _save_bare(image: Image.Image, form: str, **options: object) -> bytes:
    """Encode a picture without the metadata of its file (location, camera, comments)."""
    from PIL import Image as Images

    bare = Images.frombytes(image.mode, image.size, image.tobytes())
    written = io.BytesIO()
    bare.save(written, form, **options)
    return written.getvalue()


CELL = (10, 20)
"""The assumed pixels of a terminal cell; pictures are never enlarged."""
GROUND = (128, 128, 128)
"""The background of transparent pictures, suitable for black and white text."""


Form = Literal["blocks", "png", "sixel"]
"""The output format of a picture."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A picture scaled to a number of terminal cells."""

    columns: int
    rows: int
    data: bytes
    """For half blocks three bytes a pixel, one pixel wide and two high for each cell; or PNG; or for sixel
    the same as for half blocks, followed by a sequence for each row, separated by line feeds.
    """
    form: Form = "blocks"


def cells(width: int, height: int, columns: int, rows: int, cell: tuple[int, int] = CELL) -> tuple[int, int]:
    """Return the columns and rows for a picture of this size in pixels, in proportion, within limits."""
    across = min(columns, -(-width // cell[0]))
    down = across * height / width * cell[0] / cell[1]
    if down > rows:
        across, down = rows * width / height * cell[1] / cell[0], rows
    return max(1, min(columns, round(across))), max(1, min(rows, round(down)))


def draw_thumbnail(
    data: bytes, columns: int, rows: int, form: Form = "blocks", cell: tuple[int, int] = CELL
) -> Thumbnail:
    """Return the picture scaled to fit `columns` and `rows` of cells of this size in pixels.

    Raises `ToolError` if it is not a picture. Slow, and decodes untrusted data.
    """
    from PIL import Image, ImageOps

    image = open_picture(data)
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
        strips = sixel_rows(flat.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0), cell[1])
        return Thumbnail(across, down, blocks + b"\n".join(strips), form)
    return Thumbnail(across, down, blocks)


COLOURS = 64
"""The number of colours. More are hardly visible at this size, and each takes a pass over every six lines."""
BAND = 6
"""Pixel lines in one sixel character."""
_RUN = re.compile(rb"(.)\1{3,}", re.DOTALL)


def sixel_rows(image: Image.Image, height: int) -> list[bytes]:
    """Return the picture as Sixel control sequences, one for each strip of `height` lines. Slow."""
    from PIL import Image

    few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette = few.getpalette() or []
    pixels, width = few.tobytes(), few.width
    return [
        _strip(pixels[top * width : (top + height) * width], width, height, palette)
        for top in range(0, few.height, height)
    ]


def _strip(pixels: bytes, width: int, height: int, palette: list[int]) -> bytes:
    """Return one Sixel sequence. It leaves the screen below its last line unchanged."""
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
    """Return the Sixel text of up to six lines: for each colour, the characters that mark its pixels."""
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
    """Return Sixel characters with repeats shortened and without empty ones at the end."""
    return _RUN.sub(lambda run: b"!%d%s" % (len(run[0]), run[1]), signs.rstrip(b"?"))
