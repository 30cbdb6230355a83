"""Pictures made fit to be sent."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.support.images import png
from tools.results import ToolError
from tools.senses import pictures
from tools.senses.pictures import fit


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    written = io.BytesIO()
    image.save(written, form, **options)  # type: ignore[arg-type]
    return written.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_a_large_photo_is_turned_scaled_and_bare_and_the_same_each_time() -> None:
    photo = Image.new("RGB", (3_000, 1_000), "red")
    photo.paste("blue", (0, 0, 300, 1_000))
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Secret Camera"  # to be turned by 90° to the right
    data = saved(photo, "JPEG", exif=exif)
    found = fit(data)
    assert (found.width, found.height, found.original) == (523, 1_568, (1_000, 3_000))
    assert found.media_type == "image/jpeg" and b"Secret" not in found.data and b"Exif" not in found.data
    pixel = opened(found.data).convert("RGB").getpixel((260, 20))
    assert isinstance(pixel, tuple) and pixel[2] > 200 > 60 > pixel[0]
    assert fit(data).data == found.data


def test_of_an_animation_the_first_frame_is_taken() -> None:
    frames = [Image.new("P", (20, 10), number) for number in range(3)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    found = fit(data)
    assert found.frames in (1, 3) and found.media_type == "image/png"
    assert (found.width, found.height) == (20, 10)


def test_transparency_stays_and_text_in_the_file_goes() -> None:
    from PIL.PngImagePlugin import PngInfo

    words = PngInfo()
    words.add_text("Comment", "made at home")
    data = saved(Image.new("RGBA", (5, 5), (1, 2, 3, 0)), "PNG", pnginfo=words)
    found = fit(data)
    assert b"made at home" not in found.data and opened(found.data).mode == "RGBA"


def test_what_would_be_too_heavy_is_packed_harder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BYTES", 20_000)
    noise = Image.effect_noise((200, 200), 80).convert("RGB")
    found = fit(saved(noise, "PNG"))
    assert len(found.data) <= 20_000 and found.media_type == "image/jpeg"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"not a picture at all", "not a png"),
        (b"", "not a png"),
        (png(40, 40)[:60], "damaged"),
        (png(20_000, 6_000, rows=1), "million"),
    ],
)
def test_what_is_no_picture_or_a_bomb_is_said_in_a_sentence(data: bytes, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        fit(data)
