"""What lies below other widgets, drawn for next to nothing.

Textual draws every widget that a frame touches, also those that others cover, and each row of each
through its cache of styles: below the conversation lie five of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.color import Color
from textual.containers import Container
from textual.filter import LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget


class Ground:
    """The rows of one widget that shows nothing but its background: all of them are one row."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._look: tuple[int, Color, Sequence[LineFilter]] = (0, Color(0, 0, 0), ())
        """What the row was drawn for: its width, its background, the filters it went through."""
        self._row = Strip([])

    def rows(self, crop: Region) -> list[Strip]:
        """As many rows as `crop` is high, each as wide."""
        background = self._widget.background_colors[1]
        look = (crop.width, background, list(self._widget.app.get_line_filters()))
        if look != self._look:
            self._look = look
            self._row = Strip.blank(crop.width, Style(background=background).rich_style)
            for line_filter in look[2]:
                self._row = self._row.apply_filter(line_filter, background)
        return [self._row] * crop.height


class Backdrop(Container):
    """A container that shows its background where none of its children is; without a border."""

    def __init__(self, *children: Widget, id: str | None = None) -> None:
        super().__init__(*children, id=id)
        self._ground = Ground(self)

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)


class Covered(Container):
    """A container that its children cover to the last cell: it draws nothing itself."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return []
