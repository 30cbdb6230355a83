"""The head of a screen that has the terminal to itself: what it is, how things stand, and a rule below."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from app.tui.screens.wording import line


class ScreenHeader(Horizontal):
    """A title at the left edge and a state at the right one, each one line, cut where room is short.

    Its colours are those every application has, as dialogs open such screens too.
    Where the terminal is low (class `-low` of the screen) the rule gives its line to what is below it.
    """

    DEFAULT_CSS = """
    ScreenHeader {
        height: 2;
        padding: 0 1;
        border-bottom: solid $border-blurred;
    }
    .-low ScreenHeader {
        height: 1;
        border-bottom: none;
    }
    ScreenHeader > Static {
        height: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    ScreenHeader > #page-title {
        width: auto;
        max-width: 60%;
        margin-right: 2;
        color: $accent;
        text-style: bold;
    }
    ScreenHeader > #page-state {
        width: 1fr;
        text-align: right;
        color: $text-muted;
    }
    ScreenHeader > #page-state:ansi {
        text-style: dim;
    }
    """

    def __init__(self, title: str, state: str = "") -> None:
        """Both are shown as they are, on one line."""
        super().__init__()
        # Held, because what is to be said may arrive when the screen is being taken down.
        self._title = Static(Content(line(title)), id="page-title")
        self._state = Static(Content(line(state)), id="page-state")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._state

    def retitle(self, title: str) -> None:
        """Another title."""
        self._title.update(Content(line(title)))

    def say(self, state: str) -> None:
        """How things stand now."""
        self._state.update(Content(line(state)), layout=False)
