"""The messages that wait for the running turn, as rows above the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.strip import Strip

from tools.safe_text import clean
from widgets.palette import Palette

SHOWN = 3
"""Messages shown at once; the others are counted."""


def height(queued: Sequence[str], steering: Sequence[str]) -> int:
    """Rows that `paint` gives for these messages."""
    return min(len(queued), SHOWN) + (len(queued) > SHOWN) + (1 if steering else 0)


def window(queued: Sequence[str], selected: int | None) -> range:
    """Which messages are shown: the selected one among them, else the last ones."""
    last = len(queued) if selected is None else min(max(selected + 1, SHOWN), len(queued))
    return range(max(last - SHOWN, 0), last)


def place_at(row: int, queued: Sequence[str], steering: Sequence[str], selected: int | None) -> int | None:
    """The queued message in a row of `paint`; None where a row stands for something else."""
    row -= (1 if steering else 0) + (len(queued) > SHOWN)
    shown = window(queued, selected)
    return shown[row] if 0 <= row < len(shown) else None


def paint(
    queued: Sequence[str], steering: Sequence[str], selected: int | None, width: int, palette: Palette
) -> list[Strip]:
    """One row for the steering and for each message shown, its first line only; one for how many are not."""
    shown = window(queued, selected)
    strips: list[Strip] = []
    if steering:
        more = f" … +{len(steering) - 1}" if len(steering) > 1 else ""
        words = f"{_first_line(steering[-1])}{more} · read before the next request"
        strips.append(_row("↪ ", words, width, palette, chosen=False))
    if len(queued) > SHOWN:
        strips.append(_row("  ", f"… {len(queued) - len(shown)} more queued", width, palette, chosen=False))
    for place in shown:
        text = f"{place + 1}  {_first_line(queued[place])}"
        chosen = place == selected
        strips.append(_row("▸ " if chosen else "○ ", text, width, palette, chosen=chosen))
    return strips


def _first_line(text: str) -> str:
    first, _, rest = clean(text).strip().replace("\t", " ").partition("\n")
    return first + (f" … +{rest.count(chr(10)) + 1} lines" if rest else "")


def _row(glyph: str, text: str, width: int, palette: Palette, *, chosen: bool) -> Strip:
    background = "selection" if chosen else "surface"
    room = max(width - 2, 0)
    text = set_cell_size(text, max(room - 1, 0)) + "…" if cell_len(text) > room else set_cell_size(text, room)
    strip = Strip(
        [
            Segment(glyph, palette.style("accent" if chosen else "dim", background)),
            Segment(text, palette.style("text" if chosen else "dim", background)),
        ]
    )
    return strip.crop(0, width)
