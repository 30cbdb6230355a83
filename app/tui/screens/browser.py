"""The browser screen: the page that the agent has open, as a screenshot and as text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.color import Color
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType

from app.tui.screens.entry_page import CountedPage, CountedRows
from app.tui.screens.page import line
from tools.text.words import plural
from widgets.rows.row_text import fit

if TYPE_CHECKING:
    from widgets.pictures.shelf import PictureCache, SentPicture

MOST_LINES = 5_000
"""The number of lines of a page that are shown; the file on disk has all of them."""
PICTURE_CELLS = 76
"""The width in cells of a screenshot drawn with blocks; its height follows."""
GRAPHICS_CELLS = (64, 20)
"""The largest number of columns and rows of a screenshot in a terminal with graphics."""
RENEWED = 2.0
"""Seconds between two checks for a new page."""
_LARGEST_PICTURE = 20_000_000

Pixel = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PageRow:
    """One line of the page, or one row of its screenshot, with two pixels per cell: upper and lower."""

    text: str
    pixels: tuple[tuple[Pixel, Pixel], ...] = ()
    signs: Text | None = None
    """The characters that stand for a row of the screenshot in a terminal with graphics."""


@dataclass(frozen=True, slots=True)
class OpenPage:
    """The page that was opened last, as stored on disk. `found` is false if there is none."""

    found: bool
    title: str = ""
    url: str = ""
    rows: tuple[PageRow, ...] = ()


def read_page(folder: Path, picture: Sequence[PageRow] = ()) -> OpenPage:
    """Read the page stored in the `browser` folder of a session; its rows follow `picture`. Blocks."""
    try:
        text = (folder / "page.txt").read_text("utf-8", "replace")
    except OSError:
        return OpenPage(False)
    title, _, rest = text.partition("\n")
    url, _, body = rest.partition("\n")
    lines = body.strip("\n").split("\n")
    rows = [PageRow(each) for each in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        rows.append(PageRow(f"… {plural(len(lines) - MOST_LINES, 'more line')}: {folder / 'page.txt'}"))
    blank = (PageRow(""),) if picture else ()
    return OpenPage(True, title, url, (*picture, *blank, *rows))


def picture_rows(path: Path, cells: int = PICTURE_CELLS) -> tuple[PageRow, ...]:
    """Return an image as rows of half blocks; empty if it is unreadable. Blocks for some milliseconds."""
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
    """The rows of the screenshot and the lines of the page."""

    def draw_entry(self, entry: PageRow, width: int) -> list[Text]:
        if entry.signs is not None:
            return [Text(" ").append_text(entry.signs)]
        if not entry.pixels:
            ink = self.ink("accent" if "[ref=" in entry.text else "text")
            return [fit(Text(" ").append(line(entry.text) or " ", ink), width)]
        text = Text(" ")
        for upper, lower in entry.pixels[: max(width - 2, 1)]:
            text.append("▀", Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        return [text]


class BrowserScreen(CountedPage[OpenPage, PageRow]):
    """Shows the stored page, and reads it again when the agent has changed it."""

    heading = "Browser"
    keys = "i picture · F5 read again · / filter · y copy · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "count", "Read again", id="browser.read"),
        Binding("i", "picture", "Picture", id="browser.picture"),
    ]

    def __init__(self, folder: Path, *, colours: bool = True, shelf: PictureCache | None = None) -> None:
        """`folder` is the session's folder for the page; without `colours` there is no screenshot.

        `shelf` knows the graphics protocol of the terminal; without it, the screenshot is drawn in half
        blocks.
        """
        super().__init__(self._read, PageRows())
        self._folder = folder
        self._has_colours = colours
        self._picture = colours
        self._shelf = shelf
        self._held: SentPicture | None = None
        self._drawn: tuple[int, tuple[PageRow, ...]] = (0, ())
        """The modification time of the screenshot in nanoseconds, and its rows."""

    def on_mount(self) -> None:
        self.set_interval(RENEWED, lambda: self.action_count(True))

    def rows_and_title(self, found: OpenPage) -> tuple[Sequence[PageRow], str]:
        """Return the rows of page and screenshot, and title and address of the page."""
        if not found.found:
            return (PageRow("No page is open in this session."),), ""
        return found.rows, " · ".join(filter(None, (line(found.title), line(found.url))))

    def action_picture(self) -> None:
        """Switch between the page with its screenshot and only its text."""
        self._picture = self._has_colours and not self._picture
        self.action_count()

    def on_unmount(self) -> None:
        self._release()

    async def _read(self) -> OpenPage:
        rows = await self._rows() if self._picture else ()
        return await asyncio.to_thread(read_page, self._folder, rows)

    async def _rows(self) -> tuple[PageRow, ...]:
        """Return the rows of the screenshot; they are computed again only when its file has changed."""
        path = self._folder / "page.jpg"
        try:
            made = (await asyncio.to_thread(path.stat)).st_mtime_ns
        except OSError:
            return ()
        if made != self._drawn[0]:
            before = self._held
            self._drawn = made, await self._graphics(path) or await asyncio.to_thread(picture_rows, path)
            if self._shelf is not None and before is not None:
                self._shelf.release(before)
        return self._drawn[1]

    async def _graphics(self, path: Path) -> tuple[PageRow, ...]:
        """Return the rows of the screenshot in the terminal's graphics protocol; empty without such a
        protocol, or if the file is unreadable.
        """
        from tools.results import ToolError
        from tools.senses.reading_apart import thumbnail

        self._held = None
        form, cell = await self._shelf.ready() if self._shelf is not None else ("blocks", (0, 0))
        if self._shelf is None or form == "blocks":
            return ()
        try:
            data = await asyncio.to_thread(path.read_bytes)
            self._held = await self._shelf.send(await thumbnail(data, *GRAPHICS_CELLS, form, cell))
        except (OSError, ToolError, ValueError):
            return ()
        if not self.is_mounted:
            self._release()
        return (
            tuple(
                PageRow("", signs=Text.assemble(*((part.text, part.style or "") for part in row)))
                for row in self._held.rows
            )
            if self._held
            else ()
        )

    def _release(self) -> None:
        if self._shelf is not None and self._held is not None:
            self._shelf.release(self._held)
        self._held = None
