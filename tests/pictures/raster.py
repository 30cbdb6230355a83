"""Pictures of a screen of Textual: its cells, drawn with a fixed-width font."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from rich.cells import split_graphemes
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from textual.app import App

FONT, BOLD = (f"DejaVuSansMono{kind}.ttf" for kind in ("", "-Bold"))
POINTS = 13
Tone = tuple[int, int, int]
Faces = dict[bool, ImageFont.FreeTypeFont]


def draw_screen(app: App[Any]) -> Image.Image:
    """Return what the application shows, as a picture."""
    faces: Faces = {False: ImageFont.truetype(FONT, POINTS), True: ImageFont.truetype(BOLD, POINTS)}
    width, height = round(faces[False].getlength("m")), POINTS + 4
    size = app.screen.size
    picture = Image.new("RGB", (size.width * width, size.height * height))
    pencil = ImageDraw.Draw(picture)
    for row, strip in enumerate(app.screen._compositor.render_strips()):
        column = 0
        for segment in strip:
            style = segment.style or Style()
            front, back = _tones(style)
            for text, cells in _clusters(segment.text):
                at = (column * width, row * height)
                pencil.rectangle((*at, at[0] + cells * width, at[1] + height), fill=back)
                if text.strip():
                    pencil.text((at[0], at[1] + 1), text, front, faces[bool(style.bold)])
                if style.underline:
                    pencil.line((at[0], at[1] + height - 2, at[0] + cells * width, at[1] + height - 2), front)
                column += cells
    return picture


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    for start, end, cells in split_graphemes(text)[0]:
        if cells:
            yield text[start:end], cells


def _tones(style: Style) -> tuple[Tone, Tone]:
    front, back = _tone(style.color, front=True), _tone(style.bgcolor, front=False)
    if style.dim:
        front = _between(front, back)
    return (back, front) if style.reverse else (front, back)


def _between(front: Tone, back: Tone) -> Tone:
    red, green, blue = ((a + b) // 2 for a, b in zip(front, back, strict=True))
    return red, green, blue


def _tone(color: Color | None, *, front: bool) -> Tone:
    made = (color or Color.default()).get_truecolor(DIMMED_MONOKAI, foreground=front)
    return made.red, made.green, made.blue


def contact_sheet(pictures: Sequence[tuple[str, Image.Image]], columns: int) -> Image.Image:
    """Return pictures of one size side by side, each below its name."""
    face = ImageFont.truetype(FONT, POINTS)
    width, height = pictures[0][1].size
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * (width + 8), rows * (height + 26)), "#808080")
    pencil = ImageDraw.Draw(sheet)
    for number, (name, picture) in enumerate(pictures):
        x, y = number % columns * (width + 8), number // columns * (height + 26)
        pencil.text((x + 4, y + 3), name, "#ffffff", face)
        sheet.paste(picture, (x + 4, y + 22))
    return sheet
