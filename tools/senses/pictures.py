"""Pictures from anywhere made fit to be sent: turned, scaled, one frame, without what cameras add.

The same picture always gives the same bytes. Everything here takes a while and belongs into a thread.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tools.results import ToolError

if TYPE_CHECKING:
    from PIL import Image

LONGEST_SIDE = 1_568
"""Pixels of the longer side; models scale down what is larger."""
MOST_BYTES = 5_000_000
"""Bytes of a picture that is sent."""
MOST_PIXELS = 100_000_000
"""Pixels above which a picture is not unpacked."""
LARGEST_FILE = 50_000_000
"""Bytes of a file that is looked at."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_QUALITIES = (85, 70, 50, 30)


@dataclass(frozen=True, slots=True)
class FitPicture:
    """A picture as it is sent."""

    data: bytes
    media_type: Literal["image/png", "image/jpeg"]
    width: int
    height: int
    original: tuple[int, int]
    """Width and height it had, turned upright."""
    frames: int = 1
    """How many pictures the file holds; only the first is sent."""


def fit(data: bytes) -> FitPicture:
    """Make a picture fit to be sent. Raises `ToolError` for what is none."""
    from PIL import ImageOps

    image = opened(data)
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


def opened(data: bytes) -> Image.Image:
    """A picture whose pixels are not unpacked yet. Raises `ToolError` for what is none, or is too large."""
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
        raise ToolError("This is no png, jpeg, gif, webp, bmp or tiff picture.") from None
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
    """The original size, turned as the picture is."""
    lies, shown_lies = size[0] >= size[1], shown[0] >= shown[1]
    return size if lies == shown_lies else (size[1], size[0])


def _plain(image: Image.Image) -> Image.Image:
    """The same in colours that both formats know."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("RGB")


def _packed(image: Image.Image, is_photo: bool) -> tuple[bytes, Literal["image/png", "image/jpeg"]]:
    if not is_photo:
        data = _saved(image, "PNG", optimize=False)
        if len(data) <= MOST_BYTES:
            return data, "image/png"
    flat = image
    if image.mode == "RGBA":
        from PIL import Image as Images

        flat = Images.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A"))
    tried = (_saved(flat, "JPEG", quality=quality) for quality in _QUALITIES)
    data = next((each for each in tried if len(each) <= MOST_BYTES), None)
    if data is None:
        raise ToolError("The picture cannot be made small enough to be sent; scale it down.")
    return data, "image/jpeg"


def _saved(image: Image.Image, form: str, **options: object) -> bytes:
    """Packed anew: what the file said beside its pixels (place, camera, comments) is not in it."""
    from PIL import Image as Images

    bare = Images.frombytes(image.mode, image.size, image.tobytes())
    written = io.BytesIO()
    bare.save(written, form, **options)
    return written.getvalue()
