"""Sixel graphics: placeholder characters in the text show the parts of a picture, as in Kitty's protocol.

A sixel terminal has no placeholders. Before output, each row of them is replaced with the matching strip of
the picture, so it moves and is covered like text. A partly covered row is shown as half blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual.strip import Strip

from tools.kit.lazy_pattern import lazy_pattern
from widgets.pictures.kitty import MARKS, SIGN

MOST = len(MARKS)
"""Pictures that can be held at once."""
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
        """Return the terminal output with graphics in place of placeholders."""
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


def signs(slot: int, columns: int, rows: int) -> list[Strip]:
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
