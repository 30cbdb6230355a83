"""A line to write in."""

from __future__ import annotations

from textual.widgets import Input


class Field(Input):
    """Its cursor blinks only where things may move."""

    def on_mount(self) -> None:
        self.cursor_blink = self.app.animation_level != "none"
