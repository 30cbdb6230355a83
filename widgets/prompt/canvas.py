"""The rows of the prompt on the screen, and which of them have to be painted anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.strip import Strip

from widgets.prompt.buffer import Span
from widgets.prompt.layout import lay_out, row_of


class Canvas:
    """The wrapped rows, the part of them that shows, and the strips last painted."""

    def __init__(self) -> None:
        self.rows: list[Span] = [(0, 0)]
        self.top = 0
        self.strips: Sequence[Strip] = ()

    def wrap(self, text: str, cursor: int, width: int, most: int, labels: Mapping[str, str]) -> int:
        """Wrap `text` and scroll to the cursor. Returns the rows that show, `most` at the most."""
        self.rows = lay_out(text, width, labels)
        shown = min(len(self.rows), most)
        here = row_of(self.rows, cursor)
        self.top = min(max(self.top, here - shown + 1), here, len(self.rows) - shown)
        return shown

    def replace(self, strips: Sequence[Strip]) -> list[int]:
        """Keep new strips; returns the places of those that differ."""
        before = self.strips
        self.strips = strips
        return [at for at, strip in enumerate(strips) if at >= len(before) or before[at] != strip]
