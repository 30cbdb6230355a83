"""The preview of a skin: a few lines of an invented session."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget

from app.tui.screens.skins.skin_files import sample
from themes.skin import Skin
from widgets.palette import Palette
from widgets.rows.row_text import to_strip


class SkinPreview(Widget):
    """A widget that shows a skin, independent of the application's skin."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "SkinPreview { width: 1fr; height: 1fr; }"

    def __init__(self, skin: Skin, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._skin = skin
        self._strips: list[Strip] = []
        self._width = 0

    def show(self, skin: Skin) -> None:
        """Show this skin, reduced to the terminal's colours."""
        self._skin = skin
        self._strips = []
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = Palette(self._skin).style("text")
        if not self._strips or self._width != width:
            self._width = width
            console = self.app.console
            lines = sample(self._skin, width, banner=False)
            self._strips = [to_strip(line, width, base, console) for line in lines]
        return self._strips[y] if y < len(self._strips) else Strip.blank(width, base)
