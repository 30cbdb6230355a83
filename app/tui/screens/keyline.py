"""The keys that work, on one line at the foot of a dialog or screen."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from widgets.rows.row_text import BETWEEN, fitted

__all__ = ["BETWEEN", "KeyLine", "fitted"]


class KeyLine(Widget):
    """Says as many of the keys as have room: the way back always, of the others the first ones."""

    DEFAULT_CSS = """
    KeyLine {
        width: 100%;
        height: 1;
        padding: 0 1;
        color: $text-muted;
    }
    KeyLine:ansi {
        text-style: dim;
    }
    """

    def __init__(self, keys: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        """`keys` are parted by ` · `, the most important first and the way back last."""
        super().__init__(id=id, classes=classes)
        self._keys = keys

    def say(self, keys: str) -> None:
        """Other keys work now."""
        self._keys = keys
        self.refresh()

    def render(self) -> Content:
        return Content(fitted(self._keys, self.content_size.width))
