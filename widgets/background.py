"""Containers that lie below other widgets, drawn for next to nothing.

Textual draws every widget that a frame touches, also those that others cover, and each row of each
through its cache of styles: below the conversation lie five of them.
"""

from __future__ import annotations

from textual.color import Color
from textual.containers import Container
from textual.filter import LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from widgets.painting.filtered_rows import FilteredRows


class Background:
    """The rows of a widget that shows nothing but its background, without a border: all are one row."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._look: tuple[int, Color, list[LineFilter]] = (-1, Color(0, 0, 0), [])
        """What the row was drawn for: its width, the background, the filters it went through."""
        self._row = Strip([])

    def rows(self, crop: Region) -> list[Strip]:
        """As many rows as `crop` is high, each as wide."""
        background = self._widget.background_colors[1]
        look = (crop.width, background, list(self._widget.app.get_line_filters()))
        if look != self._look:
            self._look = look
            row = Strip.blank(crop.width, Style(background=background).rich_style)
            self._row = FilteredRows(self._widget).filter([row], 0, crop.width)[0]
        return [self._row] * crop.height


class Backdrop(Container):
    """A container that shows its background where none of its children is."""

    def __init__(self, *children: Widget, id: str | None = None) -> None:
        super().__init__(*children, id=id)
        self._ground = Background(self)

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)


class BlankContainer(Container):
    """A container that its children cover to the last cell: it draws nothing itself."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return []
