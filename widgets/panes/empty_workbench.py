"""The place of the workbench until there is one: its rules and the ground of its column, in one widget.

Every widget of the first picture is waited for. What belongs to a workbench comes after it.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from themes.skin import Skin
from widgets.painting.filtered_rows import FilteredRows, KeptRow
from widgets.palette import Palette
from widgets.panes.arrangement import WIDTH, mode_for, side_width


class EmptyBench(KeptRow):
    """Looks like a workbench that holds nothing; takes no keys."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "EmptyBench { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.palette = Palette(Skin())
        self.wished = WIDTH
        """Cells of the side column, as far as there is room."""
        self.column = True
        """Whether there will be panes, in a column or in a line below."""
        self._filtered = FilteredRows(self)

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def shown_rows(self, crop: Region) -> list[Strip]:
        return self._filtered.filter(self._rows()[crop.y : crop.bottom], crop.x, crop.right)

    def _rows(self) -> list[Strip]:
        """All rows; those that look alike are one and the same."""
        (width, height), style = self.size, self.palette.style
        rule, ground = style("rule"), style("text")
        mode = mode_for(width)
        top = bottom = Strip([Segment("─" * width, rule)], width)
        middle = Strip([Segment(" " * width, ground)], width)
        if mode == "wide" and self.column:
            side = side_width(self.wished, width)
            main = width - side - 1
            top, bottom = (Strip([Segment("─" * main + joint + "─" * side, rule)], width) for joint in "┬┴")
            column = Segment(" " * side, style("text", "surface"))
            middle = Strip([Segment(" " * main, ground), Segment("│", rule), column], width)
        below = [Strip([Segment(" " * width, ground)], width)] if mode == "bar" and self.column else []
        return [top, *[middle] * (height - 2 - len(below)), bottom, *below][:height]
