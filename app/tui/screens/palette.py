"""The palette of all commands."""

from __future__ import annotations

from textual import events
from textual.command import CommandList, CommandPalette, SearchIcon

from app.tui.screens.closable import ClosableScreen

LOW = 10
"""Rows of a screen below which there are no blank lines around the input."""


class StyledCommandPalette(CommandPalette, ClosableScreen[None]):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Textual's palette with the colours and motion of our dialogs."""

    CSS = """
    StyledCommandPalette > Vertical#--container {
        margin-top: 2;
        background: $surface;
    }
    StyledCommandPalette > Vertical#--container:dark {
        background: $surface;
    }
    StyledCommandPalette #--input, StyledCommandPalette #--input.--list-visible {
        border: none;
        height: 3;
        padding: 1 1 0 1;
    }
    StyledCommandPalette.-low > Vertical#--container {
        margin-top: 0;
    }
    StyledCommandPalette.-low #--input, StyledCommandPalette.-low #--input.--list-visible {
        height: 1;
        padding: 0 1;
    }
    StyledCommandPalette SearchIcon {
        color: $accent;
        margin: 0;
    }
    StyledCommandPalette CommandInput, StyledCommandPalette CommandInput:focus {
        border: none;
        height: 1;
        padding: 0;
    }
    StyledCommandPalette CommandList {
        border: none;
        min-width: 8;
        scrollbar-size-vertical: 1;
    }
    StyledCommandPalette CommandList > .option-list--option {
        padding: 0 2 0 3; /* below the first letter of what is searched for */
    }
    StyledCommandPalette CommandList > .option-list--option-highlighted {
        color: $block-cursor-foreground;
        background: $block-cursor-background;
    }
    """

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < LOW, "-low")
        # A list without space cannot wrap its rows or page through them.
        self.query_one(CommandList).styles.max_height = max(event.size.height * 7 // 10, 1)

    def on_mount(self) -> None:
        # A glyph that takes one cell everywhere.
        self.query_one(SearchIcon).icon = "⌕"
