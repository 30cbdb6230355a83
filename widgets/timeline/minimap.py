"""The column at the right edge that shows the whole tree."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from widgets.palette import Palette
from widgets.timeline.landmarks import GLYPHS, Landmark, line_at, reduce_landmarks, row_of


class Minimap(Widget):
    """An overview of the tree; blank while all rows are visible."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Minimap { width: 1; height: 1fr; }"

    class Jumped(Message):
        """Request to show this line."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.palette = Palette(Skin())
        self._lines: list[Landmark] = []
        self._cells: list[Landmark] = []
        self._height = 0
        self._cursor: int | None = None

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def show(self, lines: list[Landmark]) -> None:
        """Show the landmarks of all lines."""
        self._lines, self._height = lines, 0
        self.refresh()

    def point(self, line: int | None) -> None:
        """Set the line of the cursor."""
        if line != self._cursor:
            self._cursor = line
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if len(self._lines) > self.size.height:
            self.post_message(self.Jumped(line_at(event.y, len(self._lines), self.size.height)))

    def render_line(self, y: int) -> Strip:
        height, count = self.size.height, len(self._lines)
        if self._height != height:
            self._cells, self._height = reduce_landmarks(self._lines, height), height
        if count <= height or y >= len(self._cells):
            return Strip.blank(self.size.width, self.palette.style("text"))
        mark = self._cells[y]
        if self._cursor is not None and row_of(self._cursor, count, height) == y:
            mark = Landmark.CURSOR
        glyph, role = GLYPHS[mark]
        return Strip([Segment(glyph, self.palette.style(role))]).adjust_cell_length(
            self.size.width, self.palette.style("text")
        )
