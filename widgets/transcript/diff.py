"""A unified diff as strips: one column of line numbers, colours of the language, marks in changed lines."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip

from tools.text import clean
from widgets.palette import Palette
from widgets.transcript.wrap import crop, strips


def render_diff(diff: str, width: int, palette: Palette, *, language: str = "") -> list[Strip]:
    """The diff in rows of at most `width` cells."""
    roles = {"+": "added", "-": "removed"}
    rows = []
    for line in clean(diff).split("\n"):
        role = roles.get(line[:1], "text")
        background = f"{role}_background" if role != "text" else "background"
        style = palette.style(role, background)
        rows.append(crop([Segment(line.expandtabs(4), style)], width, palette.style("dim")))
    return strips(rows, width)
