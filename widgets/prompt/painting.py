"""The rows of the prompt as strips. Pure: a view goes in, strips come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.prompt.buffer import Span, is_token
from widgets.prompt.grapheme_cells import clusters
from widgets.prompt.layout import row_of

GUTTER = 2
"""Columns left of the text: the symbol and a blank."""
BESIDE = 2
"""Blank columns between the text and the hints, at least."""


class View(NamedTuple):
    """All that is drawn of the text being written."""

    text: str
    rows: Sequence[Span]
    width: int
    top: int = 0
    """The first row shown."""
    height: int = 1
    cursor: int = 0
    selection: Span | None = None
    focused: bool = True
    symbol: str = "❯"
    symbol_role: str = "user"
    placeholder: str = ""
    hints: Sequence[str] = ()
    """Most important last; those that do not fit beside the text are left out from the front."""
    labels: Mapping[str, str] = MappingProxyType({})


class SearchView(NamedTuple):
    """All that is drawn of a search through the history."""

    query: str
    match: str | None
    span: Span
    place: tuple[int, int]
    width: int


def text_width(width: int) -> int:
    """Cells a row of text has in a prompt of `width`; one more is kept for the cursor at its end."""
    return max(width - GUTTER - 1, 1)


def paint(view: View, palette: Palette) -> list[Strip]:
    """One strip for each row of the height; the hints stand at the right of the last one."""
    here = row_of(list(view.rows), view.cursor)
    last = min(view.top + view.height, len(view.rows))
    strips: list[Strip] = []
    for at in range(view.top, view.top + view.height):
        segments = [_gutter(view, at, palette)]
        if not view.text:
            segments += _empty(view, palette)
        elif at < len(view.rows):
            segments += _row(view, at, palette, has_cursor=at == here)
        hints = view.hints if at == last - 1 else ()
        strips.append(finish(segments, hints, view.width, palette))
    return strips


def paint_search(view: SearchView, palette: Palette) -> Strip:
    """The search in the row of the prompt: the query, what it found, and which of how many."""
    shown = clean(view.match or "").replace("\n", "⏎").replace("\t", " ")
    start, end = view.span if len(shown) == len(view.match or "") else (0, 0)
    room = view.width - GUTTER - cell_len(view.query) - 30
    if start > room // 2 > 0:
        cut = start - room // 4
        shown, start, end = "…" + shown[cut:], start - cut + 1, end - cut + 1
    plain, dim = palette.style("text", "surface"), palette.style("dim", "surface")
    segments = [
        Segment("⌕ ", palette.style("accent", "surface")),
        Segment(view.query, plain),
        Segment(" ", palette.style("surface", "cursor")),
        Segment("  "),
    ]
    if view.match is not None:
        segments += [
            Segment(shown[:start], dim),
            Segment(shown[start:end], palette.style("text", "match")),
            Segment(shown[end:], dim),
        ]
        hints = [f"{view.place[0]} of {view.place[1]}", "^R older", "⏎ take", "esc back"]
    else:
        segments.append(Segment("nothing found" if view.query else "search what you sent before", dim))
        hints = ["esc back"]
    return finish(segments, hints, view.width, palette, cut=True)


def finish(
    segments: Iterable[Segment], hints: Sequence[str], width: int, palette: Palette, *, cut: bool = False
) -> Strip:
    """A full row: segments at the left, hints at the right where there is room for them.

    `cut` shortens the left side to half the row rather than giving up hints.
    """
    surface = palette.style("text", "surface")
    filled = (Segment(s.text, s.style or surface) for s in segments if s.text)
    # A strip made anew measures its segments: a cut through a joined emoji changes their width.
    left = Strip(list(Strip(filled).crop(0, width)))
    right = ""
    room = width // 2 if cut else width - left.cell_length - BESIDE
    for first in range(len(hints)):
        right = " · ".join(hints[first:])
        if cell_len(right) <= room:
            break
    else:
        right = ""
    if cut and left.cell_length > width - cell_len(right) - BESIDE:
        left = left.crop(0, width - cell_len(right) - BESIDE - 1)
        left = Strip([*left, Segment("…", palette.style("dim", "surface"))])
    gap = max(width - left.cell_length - cell_len(right), 0)
    return Strip([*left, Segment(" " * gap, surface), Segment(right, palette.style("dim", "surface"))], width)


def _gutter(view: View, at: int, palette: Palette) -> Segment:
    if at == view.top > 0:
        return Segment("↑ ", palette.style("dim", "surface"))
    if at == view.top + view.height - 1 and at < len(view.rows) - 1:
        return Segment("↓ ", palette.style("dim", "surface"))
    symbol = _in_gutter(view.symbol) if at == 0 else " " * GUTTER
    return Segment(symbol, palette.style(view.symbol_role, "surface", bold=True))


@lru_cache(maxsize=16)
def _in_gutter(symbol: str) -> str:
    return set_cell_size(clean(symbol), GUTTER)


def _empty(view: View, palette: Palette) -> list[Segment]:
    words = clean(view.placeholder) or " "
    dim = palette.style("dim", "surface")
    under = palette.style("surface", "cursor") if view.focused else dim
    return [Segment(words[0], under), Segment(words[1:], dim)]


def _row(view: View, at: int, palette: Palette, *, has_cursor: bool) -> list[Segment]:
    """The text of one row, characters of one style together."""
    start, end = view.rows[at]
    low, high = view.selection or (0, 0)
    text_style = palette.style("text", "surface")
    pieces: list[tuple[str, Style]] = []
    drawn = False
    room = text_width(view.width)
    for cluster in clusters(view.text[start:end], view.labels):
        offset = start + cluster.start
        role = "accent" if is_token(view.text[offset]) else "text"
        style = text_style if role == "text" else palette.style(role, "surface")
        if low <= offset < high:
            style = palette.style(role, "selection")
        if has_cursor and view.focused and offset == view.cursor:
            style, drawn = palette.style("surface", "cursor"), True
        shown = cluster.shown if cluster.cells <= room else set_cell_size(cluster.shown, room - 1) + "…"
        if style == palette.style("surface", "cursor") and view.text[offset] == "\t":
            pieces += [(" ", style), (shown[1:], text_style)]
        else:
            pieces.append((shown, style))
    if has_cursor and view.focused and not drawn:
        pieces.append((" ", palette.style("surface", "cursor")))
    elif low <= end < high and end < len(view.text) and view.text[end] == "\n":
        # A selected line feed shows as a blank, or an empty line would look left out.
        pieces.append((" ", palette.style("text", "selection")))
    return _joined(pieces)


def _joined(pieces: list[tuple[str, Style]]) -> list[Segment]:
    segments: list[Segment] = []
    texts: list[str] = []
    for at, (text, style) in enumerate(pieces):
        texts.append(text)
        if at + 1 == len(pieces) or pieces[at + 1][1] != style:
            segments.append(Segment("".join(texts), style))
            texts = []
    return segments
