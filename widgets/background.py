"""Containers below other widgets, cheap to draw.

Textual draws every widget that a frame touches, including covered ones, and sends each row through its style
cache. Five such containers lie below the conversation.
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
    """The rows of a borderless widget that shows only its background; all rows are one object."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._look: tuple[int, Color, list[LineFilter]] = (-1, Color(0, 0, 0), [])
        """The width, background and filters for which the row was made."""
        self._row = Strip([])

    def rows(self, crop: Region) -> list[Strip]:
        """Return the rows of `crop`, all of its width."""
        background = self._widget.background_colors[1]
        look = (crop.width, background, list(self._widget.app.get_line_filters()))
        if look != self._look:
            self._look = look
            row = Strip.blank(crop.width, Style(background=background).rich_style)
            self._row = FilteredRows(self._widget).filter([row], 0, crop.width)[0]
        return [self._row] * crop.height


class Backdrop(Container):
    """A container that shows its background where no child covers it."""

    def __init__(self, *children: Widget, id: str | None = None) -> None:
        super().__init__(*children, id=id)
        self._ground = Background(self)

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)


class BlankContainer(Container):
    """A container fully covered by its children; it draws nothing itself."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return []
