"""Rows as they reach the screen: the document's strips with focus bar, marks, scrollbar and badge."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from widgets.palette import Palette
from widgets.transcript.drawing import GUTTER, fit
from widgets.transcript.wrap import flat, wrap

BAR = 1
"""Columns in front of a row: the bar of the focused item."""
SCROLLBAR = 1
"""Columns behind a row."""

LESSON = "Name a file with @ and it comes along: explain @src/main.py"
"""What the empty conversation teaches."""

Span = tuple[int, int]


def painted(
    strip: Strip,
    palette: Palette,
    *,
    focused: bool = False,
    thumb: bool | None = None,
    found: Sequence[Span] = (),
    selected: Span | None = None,
) -> Strip:
    """A whole row of the screen. Spans count characters; `thumb` is None where there is nothing to scroll."""
    for span in found:
        strip = _marked(strip, span, Style(bgcolor=palette.style("text", "match").bgcolor))
    if selected is not None:
        strip = _marked(strip, selected, Style(bgcolor=palette.style("text", "selection").bgcolor))
    bar = Segment("▎" if focused else " ", palette.style("accent"))
    if thumb is None:
        edge = Segment(" ", palette.style("text"))
    else:
        edge = Segment("┃" if thumb else " ", palette.style("dim"))
    return Strip([bar, *strip, edge], BAR + strip.cell_length + SCROLLBAR)


def badge(row: Strip, text: str, palette: Palette) -> Strip:
    """A row with a short message over its right end."""
    room = row.cell_length - SCROLLBAR
    label = f" {fit(flat(text), max(room - 2, 0))} "
    start = max(room - cell_len(label), 0)
    body = Segment(label, palette.style("accent", "surface", bold=True))
    return Strip.join([row.crop(0, start), Strip([body]), row.crop(room)])


def thumb_rows(above: int, height: int, total: int) -> range | None:
    """Which rows of the scrollbar its thumb covers; None where everything is in sight."""
    if total <= height or height < 1:
        return None
    size = max(1, height * height // total)
    start = min(above * (height - size) // max(total - height, 1), height - size)
    return range(start, start + size)


def hint(height: int, width: int, palette: Palette) -> list[Strip]:
    """The empty conversation: a banner, a welcome, and one thing to learn."""
    base = palette.style("text")
    lines = [[Segment(flat(line), palette.style("dim"))] for line in palette.skin.banner.splitlines()]
    lines += [[]] if lines else []
    room = max(width - BAR - GUTTER - 2 * SCROLLBAR, 1)
    lines += wrap([Segment(flat(palette.skin.welcome), palette.style("text", bold=True))], room)
    lines += wrap([Segment(LESSON, palette.style("dim"))], room)
    start = max((height - len(lines)) // 3, 0)
    blank = Strip([Segment(" " * width, base)])
    indent = Segment(" " * (BAR + GUTTER), base)
    drawn = [Strip([indent, *line]).crop_extend(0, width, base) for line in lines]
    return ([blank] * start + drawn + [blank] * height)[:height]


def _marked(strip: Strip, span: Span, style: Style) -> Strip:
    text = strip.text
    start, end = cell_len(text[: span[0]]), cell_len(text[: span[1]])
    inside = Strip([Segment(run.text, (run.style or Style.null()) + style) for run in strip.crop(start, end)])
    return Strip.join([strip.crop(0, start), inside, strip.crop(end)])
