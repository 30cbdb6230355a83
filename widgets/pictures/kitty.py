"""Kitty's graphics protocol: a picture is sent once; placeholder characters in the text show its parts.

A placeholder is U+10EEEE with two marks for row and column; its colour is the picture's number. So a picture
moves and is clipped and covered like other text, without special handling.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

SIGN = "\U0010eeee"
PIECE = 4_096
"""Characters of data in one sequence, as the protocol has it."""
LARGEST_NUMBER = 0xFFFFFF
MARKS = (
    "\u0305\u030d\u030e\u0310\u0312\u033d\u033e\u033f\u0346\u034a\u034b\u034c\u0350\u0351\u0352\u0357"
    "\u035b\u0363\u0364\u0365\u0366\u0367\u0368\u0369\u036a\u036b\u036c\u036d\u036e\u036f\u0483\u0484"
    "\u0485\u0486\u0487\u0592\u0593\u0594\u0595\u0597\u0598\u0599\u059c\u059d\u059e\u059f\u05a0\u05a1"
    "\u05a8\u05a9\u05ab\u05ac\u05af\u05c4\u0610\u0611\u0612\u0613\u0614\u0615\u0616\u0617\u0657\u0658"
)
"""The marks that stand for 0, 1, 2, … as the protocol lists them."""


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


def signs(number: int, columns: int, rows: int) -> list[Strip]:
    """Return the rows of placeholders that show a picture."""
    ink = Style(color=Color.from_rgb(number >> 16 & 0xFF, number >> 8 & 0xFF, number & 0xFF))
    return [
        Strip([Segment("".join(f"{SIGN}{MARKS[row]}{mark}" for mark in MARKS[:columns]), ink)], columns)
        for row in range(rows)
    ]
