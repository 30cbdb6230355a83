"""The palette of all commands."""

from __future__ import annotations

from textual.command import CommandPalette, SearchIcon

from app.screens.closable import ClosableScreen


class Palette(CommandPalette, ClosableScreen[None]):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Textual's, in the colours and with the calm of our dialogs."""

    CSS = """
    Palette > Vertical#--container {
        margin-top: 2;
        background: $surface;
    }
    Palette > Vertical#--container:dark {
        background: $surface;
    }
    Palette #--input, Palette #--input.--list-visible {
        border: none;
        height: 3;
        padding: 1 1 0 1;
    }
    Palette SearchIcon {
        color: $accent;
        margin: 0;
    }
    Palette CommandInput, Palette CommandInput:focus {
        border: none;
        height: 1;
        padding: 0;
    }
    Palette CommandList {
        border: none;
        scrollbar-size-vertical: 1;
    }
    Palette CommandList > .option-list--option-highlighted {
        color: $block-cursor-foreground;
        background: $block-cursor-background;
    }
    """

    def on_mount(self) -> None:
        # A glyph that takes one cell everywhere.
        self.query_one(SearchIcon).icon = "⌕"
