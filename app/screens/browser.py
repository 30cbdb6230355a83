"""The browser screen: the page the agent has open, as a picture of half blocks and as its text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.color import Color
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType

from app.screens.counted import CountedPage, CountedRows
from app.screens.wording import line
from widgets.row_text import fit

MOST_LINES = 5_000
"""Lines of a page that are shown; all of it lies on disk."""
PICTURE_CELLS = 76
"""Width of the picture; its height follows."""
RENEWED = 2.0
"""Seconds between two looks at whether the agent went on."""
_LARGEST_PICTURE = 20_000_000

Pixel = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PageRow:
    """One line of the page, or one row of its picture: two pixels a cell, upper and lower."""

    text: str
    pixels: tuple[tuple[Pixel, Pixel], ...] = ()


@dataclass(frozen=True, slots=True)
class OpenPage:
    """What is kept of the page that was open last. `found` is false where there is none."""

    found: bool
    title: str = ""
    url: str = ""
    rows: tuple[PageRow, ...] = ()


def read_page(folder: Path, *, picture: bool) -> OpenPage:
    """The page kept in the `browser` folder of a session. Blocks."""
    try:
        text = (folder / "page.txt").read_text("utf-8", "replace")
    except OSError:
        return OpenPage(False)
    title, _, rest = text.partition("\n")
    url, _, body = rest.partition("\n")
    lines = body.strip("\n").split("\n")
    rows = [PageRow(each) for each in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        rows.append(PageRow(f"… {len(lines) - MOST_LINES:,} more lines: {folder / 'page.txt'}"))
    shown = picture_rows(folder / "page.jpg") if picture else ()
    blank = (PageRow(""),) if shown else ()
    return OpenPage(True, title, url, (*shown, *blank, *rows))


def picture_rows(path: Path, cells: int = PICTURE_CELLS) -> tuple[PageRow, ...]:
    """A picture as rows of half blocks; empty where it cannot be read. Blocks for some milliseconds."""
    from PIL import Image

    try:
        if path.stat().st_size > _LARGEST_PICTURE:
            return ()
        with Image.open(path, formats=("JPEG",)) as opened:
            height = max(2, round(opened.height * cells / opened.width) // 2 * 2)
            small = opened.convert("RGB").resize((cells, height), Image.Resampling.BOX)
    except (OSError, ValueError, Image.DecompressionBombError):
        return ()
    data = small.tobytes()
    pixels: list[Pixel] = [(data[at], data[at + 1], data[at + 2]) for at in range(0, len(data), 3)]
    return tuple(
        PageRow("", tuple(zip(pixels[top : top + cells], pixels[top + cells : top + 2 * cells], strict=True)))
        for top in range(0, height * cells, 2 * cells)
    )


class PageRows(CountedRows[PageRow]):
    """The picture and the lines."""

    def lines(self, index: int, width: int) -> list[Text]:
        """See `CountedRows.lines`."""
        row = self.entries[index]
        if not row.pixels:
            ink = self.ink("accent" if "[ref=" in row.text else "text")
            return [fit(Text(" ").append(line(row.text) or " ", ink), width)]
        text = Text(" ")
        for upper, lower in row.pixels[: max(width - 2, 1)]:
            text.append("▀", Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        return [text]


class BrowserScreen(CountedPage[OpenPage, PageRow]):
    """Shows what was kept of the page, and again when the agent goes on."""

    heading = "Browser"
    keys = "p picture · r read again · / filter · y copy · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "count", "Read again", id="browser.read"),
        Binding("p", "picture", "Picture", id="browser.picture"),
    ]

    def __init__(self, folder: Path, *, colours: bool = True) -> None:
        """`folder` is where the session keeps the page; without `colours` there is no picture."""
        super().__init__(self._read, PageRows())
        self._folder = folder
        self._has_colours = colours
        self._picture = colours

    def on_mount(self) -> None:
        self.set_interval(RENEWED, lambda: self.action_count(True))

    def told(self, found: OpenPage) -> tuple[Sequence[PageRow], str]:
        """The rows, and which page it is."""
        if not found.found:
            return (PageRow("No page is open in this session."),), ""
        return found.rows, " · ".join(filter(None, (line(found.title), line(found.url))))

    def action_picture(self) -> None:
        """Show the picture, or only the text."""
        self._picture = self._has_colours and not self._picture
        self.action_count()

    async def _read(self) -> OpenPage:
        return await asyncio.to_thread(read_page, self._folder, picture=self._picture)
