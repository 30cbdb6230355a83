"""The conversation's visible pictures: loaded when they scroll into view, released later."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.kit.lazy_pattern import lazy_pattern
from widgets.palette import Palette
from widgets.transcript.drawing import GUTTER, MARGIN, draw
from widgets.transcript.parts import Part, PicturePart
from widgets.transcript.wrap import WideRows

if TYPE_CHECKING:
    from tools.senses.pictures import Form, Thumbnail


class Graphics(Enum):
    """The ways to show pictures."""

    OFF = "off"
    BLOCKS = "blocks"
    """As half blocks, two pixels a cell."""
    KITTY = "kitty"
    """By the graphics protocol of Kitty, with placeholders in the text; Ghostty supports it, too."""
    SIXEL = "sixel"
    """As sixel graphics, a strip for each row, if the terminal reports that it supports them."""


_KITTY_TERMS = ("xterm-kitty", "xterm-ghostty")
_BETWEEN = ("TMUX", "STY", "ZELLIJ")
"""Environment variables of multiplexers, which do not pass graphics on to the terminal."""


def graphics_of(wanted: str, environ: Mapping[str, str], colours: str | None) -> Graphics:
    """Return the way to show pictures, from setting, environment and the console's colour system. Pure."""
    if wanted != "auto":
        return Graphics(wanted)
    if environ.get("NO_COLOR") or colours not in ("256", "truecolor"):
        return Graphics.OFF
    has_kitty = environ.get("TERM") in _KITTY_TERMS or bool(environ.get("KITTY_WINDOW_ID"))
    if has_kitty and colours == "truecolor" and not any(environ.get(name) for name in _BETWEEN):
        return Graphics.KITTY
    return Graphics.BLOCKS


SIGN = "\U0010eeee"
PIECE = 4_096
"""The maximum characters of data in one sequence, as the protocol requires."""
LARGEST_NUMBER = 0xFFFFFF
MARKS = (
    "\u0305\u030d\u030e\u0310\u0312\u033d\u033e\u033f\u0346\u034a\u034b\u034c\u0350\u0351\u0352\u0357"
    "\u035b\u0363\u0364\u0365\u0366\u0367\u0368\u0369\u036a\u036b\u036c\u036d\u036e\u036f\u0483\u0484"
    "\u0485\u0486\u0487\u0592\u0593\u0594\u0595\u0597\u0598\u0599\u059c\u059d\u059e\u059f\u05a0\u05a1"
    "\u05a8\u05a9\u05ab\u05ac\u05af\u05c4\u0610\u0611\u0612\u0613\u0614\u0615\u0616\u0617\u0657\u0658"
)
"""The combining characters for 0, 1, 2, … as the protocol lists them."""


def send_sequences(number: int, png: bytes, columns: int, rows: int) -> Iterator[str]:
    """Yield the sequences that send a picture, for display in `columns` by `rows` cells."""
    data = base64.standard_b64encode(png).decode("ascii")
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)] or [""]
    order = f"a=T,U=1,q=2,f=100,i={number},c={columns},r={rows},"
    for at, piece in enumerate(pieces):
        more = int(at + 1 < len(pieces))
        yield f"\x1b_G{order if at == 0 else 'q=2,'}m={more};{piece}\x1b\\"


def delete_sequence(number: int) -> str:
    """Return the sequence that deletes a picture from the terminal."""
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"


def kitty_signs(number: int, columns: int, rows: int) -> list[Strip]:
    """Return the rows of placeholders that show a picture."""
    ink = Style(color=Color.from_rgb(number >> 16 & 0xFF, number >> 8 & 0xFF, number & 0xFF))
    return [
        Strip([Segment("".join(f"{SIGN}{MARKS[row]}{mark}" for mark in MARKS[:columns]), ink)], columns)
        for row in range(rows)
    ]


UPPER = "▀"


def half_blocks(data: bytes, columns: int) -> list[Strip]:
    """Return the rows of a picture with three bytes per pixel, `columns` wide. Takes some milliseconds.

    The colour sequences are built here too, as they are most of the cost of drawing a row.
    """
    ink = _CellStyles()
    stride = columns * 3
    rows: list[Strip] = []
    for top in range(0, len(data) - 2 * stride + 1, 2 * stride):
        upper, lower = data[top : top + stride], data[top + stride : top + 2 * stride]
        cells = [
            Segment(UPPER, ink.of(upper[at : at + 3] + lower[at : at + 3])) for at in range(0, stride, 3)
        ]
        rows.append(Strip(cells, columns))
    return rows


class _CellStyles:
    """Styles of cells. Nearly equal colours share one style, to keep their number small."""

    def __init__(self) -> None:
        self._known: dict[bytes, Style] = {}

    def of(self, pixels: bytes) -> Style:
        near = bytes(each & 0xF8 | each >> 5 for each in pixels)
        style = self._known.get(near)
        if style is None:
            upper, lower = Color.from_rgb(*near[:3]), Color.from_rgb(*near[3:])
            style = self._known[near] = Style(color=upper, bgcolor=lower)
            Strip.render_ansi(style, ColorSystem.TRUECOLOR)
        return style


MOST = len(MARKS)
"""The maximum number of pictures held at once."""
_RUN = lazy_pattern(f"(?:{SIGN}[{MARKS}]{{3}})+")
_STRIP = re.compile(rb'\x1bP0;1;0q["#0-9;!?-~$-]*\x1b\\')
_PLACE = {mark: place for place, mark in enumerate(MARKS)}

Pixel = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SixelPicture:
    """A picture cut into rows of the terminal."""

    columns: int
    strips: tuple[str, ...]
    """The sequence of each row."""
    blocks: bytes
    """The same picture with one pixel a cell across and two down, three bytes each."""


def cut(data: bytes, columns: int, rows: int) -> SixelPicture:
    """Split a sixel picture of `draw_thumbnail` into its rows. Raises `ValueError` for other data."""
    size = columns * rows * 2 * 3
    strips = data[size:].split(b"\n")
    if len(strips) != rows or not all(map(_STRIP.fullmatch, strips)):
        raise ValueError("no sixel graphics")
    return SixelPicture(columns, tuple(each.decode("ascii") for each in strips), data[:size])


class SixelPictures:
    """The visible pictures by slot, and their output to the terminal."""

    def __init__(self) -> None:
        self._held: dict[int, SixelPicture] = {}

    def add(self, picture: SixelPicture) -> int:
        """Add a picture and return its slot. Raises `ValueError` if all slots are taken."""
        for slot in range(MOST):
            if slot not in self._held:
                self._held[slot] = picture
                return slot
        raise ValueError("too many pictures are in sight")

    def drop(self, slot: int) -> None:
        """Release a picture."""
        self._held.pop(slot, None)

    def with_graphics(self, text: str) -> str:
        """Return the terminal output with graphics instead of placeholders."""
        return _RUN.sub(self._graphics_for, text) if SIGN in text else text

    def _graphics_for(self, run: re.Match[str]) -> str:
        signs = run[0]
        cells = [tuple(_PLACE[mark] for mark in signs[at + 1 : at + 4]) for at in range(0, len(signs), 4)]
        # Rows of two pictures never touch; if they seem to, or a picture was released, nothing is drawn.
        row, first, slot = cells[0]
        picture = self._held.get(slot)
        expected = [(row, first + place, slot) for place in range(len(cells))]
        if picture is None or cells != expected or row >= len(picture.strips):
            return " " * len(cells)
        if first == 0 and len(cells) == picture.columns:
            # Blanks first: they take the row up. Then back, and the picture over them.
            return f"{' ' * len(cells)}\x1b7\x1b[{len(cells)}D{picture.strips[row]}\x1b8"
        return "".join(_block(picture, row, column) for _, column, _ in cells) + "\x1b[39;49m"


def sixel_signs(slot: int, columns: int, rows: int) -> list[Strip]:
    """Return the rows of placeholders that show a picture."""
    return [
        Strip(
            [Segment("".join(f"{SIGN}{MARKS[row]}{mark}{MARKS[slot]}" for mark in MARKS[:columns]))], columns
        )
        for row in range(rows)
    ]


def _block(picture: SixelPicture, row: int, column: int) -> str:
    upper, lower = (_pixel(picture, 2 * row + half, column) for half in (0, 1))
    return "\x1b[38;2;{};{};{};48;2;{};{};{}m▀".format(*upper, *lower)


def _pixel(picture: SixelPicture, line: int, column: int) -> Sequence[int]:
    at = (line * picture.columns + column) * 3
    return picture.blocks[at : at + 3]


log = logging.getLogger(__name__)

COLUMNS, ROWS = 60, 14
"""The maximum size of a picture in cells."""
KEPT = 2
"""The number of pictures held although they are out of view, because users scroll back."""
CELL = (10, 20)
"""The assumed size of a cell in pixels if the terminal does not report it."""
PATIENCE = 0.02
"""Seconds between two checks whether the terminal can take more of a picture."""

Load = Callable[[str, int, int, "Form", tuple[int, int]], Awaitable["Thumbnail | None"]]
"""A function that loads a picture: source, maximum columns and rows, form, and pixels of a cell."""


FORMS: dict[Graphics, Form] = {Graphics.KITTY: "png", Graphics.SIXEL: "sixel"}
"""The form of pictures for each kind of graphics; half blocks for the others."""


@dataclass(frozen=True, slots=True)
class SentPicture:
    """A picture prepared for a certain number of columns."""

    room: int
    rows: list[Strip]
    number: int = 0
    """The id under which the terminal stores it; 0 if it does not."""
    slot: int = -1
    """The slot in `SixelPictures`; -1 if it has none."""


class PictureCache:
    """A store of pictures that draws loaded ones and loads others, one at a time, off the event loop."""

    def __init__(
        self,
        arrived: Callable[[PicturePart], None],
        go_on: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
    ) -> None:
        """`arrived` is called with each part to redraw; `go_on` runs background work."""
        self.graphics = Graphics.OFF
        self.load: Load | None = None
        self.write: Callable[[str], None] | None = None
        """Writes sequences to the terminal; None if that is not possible."""
        self.probe: Callable[[], Awaitable[tuple[int, int] | None]] | None = None
        """Queries the terminal, at the first picture, for sixel graphics: pixels of a cell, or None."""
        self.sixels = SixelPictures()
        self.backlog: Callable[[], int] = int
        """Returns the number of bytes that wait for the terminal."""
        self.used = False
        """Whether a picture was ever requested; if not, visible rows need not be searched for any."""
        self._arrived, self._go_on = arrived, go_on
        self._held: OrderedDict[PicturePart, SentPicture] = OrderedDict()
        self._sizes: dict[PicturePart, tuple[int, int]] = {}
        """Room and rows of pictures shown before, to reserve their space; 0 rows: unreadable."""
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

    def load_visible(self, parts: Iterable[PicturePart]) -> None:
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
                self._release_part(part)
        if self._wanted and not self._reads:
            self._reads = True
            self._go_on(self._read)

    def reload_all(self) -> None:
        """Drop all pictures, so visible ones are loaded again: the terminal has lost them."""
        for part in list(self._held):
            self._release_part(part)
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
                await self._load(self._wanted.pop(0), self._room)
        finally:
            self._reads = False

    async def _load(self, part: PicturePart, room: int) -> None:
        """Load one picture and redraw its part. A failure is logged, and nothing is shown."""
        try:
            form, cell = await self.ready()
            small = await self.load(part.source, room, ROWS, form, cell) if self.load else None
            held = None if small is None else await self.send(small, room)
        except Exception:
            log.warning("a picture could not be drawn: %s", part.source, exc_info=True)
            held = None
        if room != self._room:
            return  # the width has changed; the picture is requested again when visible
        if part in self._held:
            self._release_part(part)
        self._sizes[part] = (room, len(held.rows) if held else 0)
        if held is not None:
            self._held[part] = held
            self._arrived(part)

    async def send(self, small: Thumbnail, room: int = 0) -> SentPicture:
        """Send a picture to the terminal, if necessary; return it with its rows. `release` it later."""
        write = self.write
        if small.form == "sixel":
            slot = self.sixels.add(await asyncio.to_thread(cut, small.data, small.columns, small.rows))
            return SentPicture(room, sixel_signs(slot, small.columns, small.rows), slot=slot)
        if write is None or small.form == "blocks":
            return SentPicture(room, await asyncio.to_thread(half_blocks, small.data, small.columns))
        number = secrets.randbelow(LARGEST_NUMBER) + 1
        order = (number, small.data, small.columns, small.rows)
        for piece in await asyncio.to_thread(lambda: list(send_sequences(*order))):
            while self.backlog():  # noqa: ASYNC110 - nobody tells when a terminal has read
                await asyncio.sleep(PATIENCE)
            write(piece)
            await asyncio.sleep(0)
        return SentPicture(room, kitty_signs(number, small.columns, small.rows), number)

    def _release_part(self, part: PicturePart) -> None:
        self.release(self._held.pop(part))
        self._arrived(part)

    def release(self, held: SentPicture) -> None:
        """Release a picture."""
        if held.number and self.write is not None:
            self.write(delete_sequence(held.number))
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
