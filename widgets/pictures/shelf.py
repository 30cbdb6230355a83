"""The conversation's visible pictures: loaded when they scroll into view, released later."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual.strip import Strip

from widgets.palette import Palette
from widgets.pictures import kitty, sixel
from widgets.pictures.graphics import Graphics
from widgets.pictures.half_blocks import half_blocks
from widgets.transcript.drawing import GUTTER, MARGIN, draw
from widgets.transcript.parts import Part, PicturePart
from widgets.transcript.wrap import WideRows

if TYPE_CHECKING:
    from tools.senses.pictures import Form, Thumbnail

log = logging.getLogger(__name__)

COLUMNS, ROWS = 60, 14
"""Cells that a picture takes at most."""
KEPT = 2
"""Pictures that are held although they are out of sight: who scrolls comes back."""
CELL = (10, 20)
"""Pixels that a cell is taken to have where the terminal says nothing about it."""
PATIENCE = 0.02
"""Seconds between two looks whether the terminal takes more of a picture."""

Load = Callable[[str, int, int, "Form", tuple[int, int]], Awaitable["Thumbnail | None"]]
"""Reads a picture: what stands for it, columns and rows at most, what to make of it, pixels of a cell."""


FORMS: dict[Graphics, Form] = {Graphics.KITTY: "png", Graphics.SIXEL: "sixel"}
"""What a picture is made into where it is more than half blocks."""


@dataclass(frozen=True, slots=True)
class HeldPicture:
    """A picture drawn for a certain number of columns."""

    room: int
    rows: list[Strip]
    number: int = 0
    """By which the terminal holds it."""
    slot: int = -1
    """By which signs stand for it that become sixel graphics."""


class PictureShelf:
    """Draws loaded pictures and loads others, one at a time, outside the event loop."""

    def __init__(
        self,
        arrived: Callable[[PicturePart], None],
        go_on: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
    ) -> None:
        """`arrived` is called with each part to redraw; `go_on` runs background work."""
        self.graphics = Graphics.OFF
        self.load: Load | None = None
        self.write: Callable[[str], None] | None = None
        """Takes sequences to the terminal."""
        self.probe: Callable[[], Awaitable[tuple[int, int] | None]] | None = None
        """Asks the terminal for sixel graphics: pixels of a cell, or None. Asked with the first picture."""
        self.sixels = sixel.SixelPictures()
        self.backlog: Callable[[], int] = int
        """Bytes that wait for the terminal."""
        self.used = False
        """Whether a picture was ever wanted: if not, nothing needs to look for any."""
        self._arrived, self._go_on = arrived, go_on
        self._held: OrderedDict[PicturePart, HeldPicture] = OrderedDict()
        self._sizes: dict[PicturePart, tuple[int, int]] = {}
        """Room and rows of pictures that were here, so that their place stays; 0 rows: unreadable."""
        self._wanted: list[PicturePart] = []
        self._reads = False
        self._room = 0
        self._cell = CELL

    @property
    def picture_count(self) -> int:
        """The number of pictures in memory."""
        return len(self._held)

    def draw(self, part: Part, width: int, palette: Palette, wide: WideRows) -> list[Strip]:
        """Draw a part like `widgets.transcript.drawing.draw`, including pictures."""
        if not isinstance(part, PicturePart):
            return draw(part, width, palette, wide)
        if self.graphics is Graphics.OFF or self.load is None:
            return []
        self.used = True
        self._room = min(max(width - GUTTER - MARGIN, 1), COLUMNS)
        held = self._held.get(part)
        if held is not None and held.room == self._room:
            return _pad_rows(held.rows, width, palette)
        room, rows = self._sizes.get(part, (0, 0))
        return _pad_rows([Strip([], 0)] * rows, width, palette) if room == self._room else []

    def look(self, parts: Iterable[PicturePart]) -> None:
        """Load visible pictures that are missing; release those hidden for longest."""
        if not self.used or self.graphics is Graphics.OFF or self.load is None:
            return
        in_sight = list(dict.fromkeys(parts))
        self._wanted = []
        for part in in_sight:
            held = self._held.get(part)
            if held is not None and held.room == self._room:
                self._held.move_to_end(part)
            elif self._sizes.get(part) != (self._room, 0):
                self._wanted.append(part)
        for part in list(self._held)[: max(0, len(self._held) - len(in_sight) - KEPT)]:
            if part not in in_sight:
                self._let_go(part)
        if self._wanted and not self._reads:
            self._reads = True
            self._go_on(self._read)

    def renew(self) -> None:
        """Drop all pictures, so visible ones are loaded again: the terminal has lost them."""
        for part in list(self._held):
            self._let_go(part)
        self._sizes.clear()

    async def ready(self) -> tuple[Form, tuple[int, int]]:
        """Return the required picture form and a cell's pixels; the terminal is asked the first time."""
        if self.probe is not None:
            probe, self.probe = self.probe, None
            if (cell := await probe()) is not None:
                self._cell, self.graphics = cell, Graphics.SIXEL
        form = FORMS.get(self.graphics, "blocks")
        return ("blocks" if form == "png" and self.write is None else form), self._cell

    async def _read(self) -> None:
        try:
            await self.ready()
            while self._wanted:
                await self._take(self._wanted.pop(0), self._room)
        finally:
            self._reads = False

    async def _take(self, part: PicturePart, room: int) -> None:
        """Load one picture and have it drawn."""
        try:
            form, cell = await self.ready()
            small = await self.load(part.source, room, ROWS, form, cell) if self.load else None
            held = None if small is None else await self.hold(small, room)
        except Exception:
            log.warning("a picture could not be drawn: %s", part.source, exc_info=True)
            held = None
        if room != self._room:
            return  # the width has changed; the picture is requested again when visible
        if part in self._held:
            self._let_go(part)
        self._sizes[part] = (room, len(held.rows) if held else 0)
        if held is not None:
            self._held[part] = held
            self._arrived(part)

    async def hold(self, small: Thumbnail, room: int = 0) -> HeldPicture:
        """Send a picture to the terminal and return it with its rows; `release` it later."""
        write = self.write
        if small.form == "sixel":
            slot = self.sixels.add(await asyncio.to_thread(sixel.cut, small.data, small.columns, small.rows))
            return HeldPicture(room, sixel.signs(slot, small.columns, small.rows), slot=slot)
        if write is None or small.form == "blocks":
            return HeldPicture(room, await asyncio.to_thread(half_blocks, small.data, small.columns))
        number = secrets.randbelow(kitty.LARGEST_NUMBER) + 1
        order = (number, small.data, small.columns, small.rows)
        for piece in await asyncio.to_thread(lambda: list(kitty.send_sequences(*order))):
            while self.backlog():  # noqa: ASYNC110 - nobody tells when a terminal has read
                await asyncio.sleep(PATIENCE)
            write(piece)
            await asyncio.sleep(0)
        return HeldPicture(room, kitty.signs(number, small.columns, small.rows), number)

    def _let_go(self, part: PicturePart) -> None:
        self.release(self._held.pop(part))
        self._arrived(part)

    def release(self, held: HeldPicture) -> None:
        """Release a picture."""
        if held.number and self.write is not None:
            self.write(kitty.delete_sequence(held.number))
        if held.slot >= 0:
            self.sixels.drop(held.slot)


def _pad_rows(rows: Iterable[Strip], width: int, palette: Palette) -> list[Strip]:
    """Add gutter and blanks to the rows of a picture, which contain no text."""
    base = palette.style("text")
    gutter = Segment(" " * GUTTER, base)
    return [
        Strip([gutter, *row, Segment(" " * max(width - GUTTER - row.cell_length, 0), base)], width)
        for row in rows
    ]
