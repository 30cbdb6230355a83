"""The palette of all commands."""

from __future__ import annotations

from textual.command import CommandPalette, SearchIcon


class Palette(CommandPalette):
    """Textual's, with a glyph that takes one cell everywhere."""

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = "⌕"
