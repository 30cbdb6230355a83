"""The messages waiting for the running turn, as rows above the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.strip import Strip

from themes.states import glyph
from tools.text.safe_text import clean
from widgets.palette import Palette

SHOWN = 3
"""Messages shown at once; the others are counted."""


class QueueView:
    """The waiting messages, those being sent into the running turn, and the selected one."""

    def __init__(self) -> None:
        self._queued: tuple[str, ...] = ()
        self.steering: tuple[str, ...] = ()
        """Messages on their way into the running turn; shown above those that wait."""
        self.chosen: int | None = None
        """The queued message that the keys act on."""

    @property
    def queued(self) -> tuple[str, ...]:
        """The waiting messages, in order."""
        return self._queued

    @queued.setter
    def queued(self, queued: Sequence[str]) -> None:
        self._queued = tuple(queued)
        if self.chosen is not None:
            self.chosen = min(self.chosen, len(queued) - 1) if queued else None

    @property
    def height(self) -> int:
        """Return the number of rows; 0 if no message waits."""
        return height(self._queued, self.steering)

    def paint(self, width: int, palette: Palette) -> list[Strip]:
        """Return the rows, each `width` cells wide."""
        return paint(self._queued, self.steering, self.chosen, width, palette)

    def choose_at(self, row: int) -> None:
        """Select the message in a row; none if the row shows something else."""
        self.chosen = place_at(row, self._queued, self.steering, self.chosen)

    def choose_last(self) -> bool:
        """Select the last queued message; return False if none waits."""
        self.chosen = len(self._queued) - 1 if self._queued else None
        return bool(self._queued)

    def step(self, count: int) -> None:
        """Move the selection; moving below the last message clears it."""
        at = max((self.chosen or 0) + count, 0)
        self.chosen = at if at < len(self._queued) else None

    def take(self, index: int) -> str:
        """Remove a message from the queue and return it; the selection keeps its position."""
        text = self._queued[index]
        self.queued = self._queued[:index] + self._queued[index + 1 :]
        return text


def height(queued: Sequence[str], steering: Sequence[str]) -> int:
    """Return the number of rows that `paint` returns for these messages."""
    return min(len(queued), SHOWN) + (len(queued) > SHOWN) + (1 if steering else 0)


def window(queued: Sequence[str], selected: int | None) -> range:
    """Return the range of shown messages: around the selected one, else the last ones."""
    last = len(queued) if selected is None else min(max(selected + 1, SHOWN), len(queued))
    return range(max(last - SHOWN, 0), last)


def place_at(row: int, queued: Sequence[str], steering: Sequence[str], selected: int | None) -> int | None:
    """Return the queued message in a row of `paint`; None if the row shows something else."""
    row -= (1 if steering else 0) + (len(queued) > SHOWN)
    shown = window(queued, selected)
    return shown[row] if 0 <= row < len(shown) else None


def paint(
    queued: Sequence[str], steering: Sequence[str], selected: int | None, width: int, palette: Palette
) -> list[Strip]:
    """Return one row for the steering messages, one per shown message (its first line), one for the hidden
    rest.
    """
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
        strips.append(_row("▸ " if chosen else f"{glyph('pending')} ", text, width, palette, chosen=chosen))
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
