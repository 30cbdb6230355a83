"""One text on the whole screen: the detail of a card, with nothing cut off."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from app.screens.dialog import line
from app.screens.page import HELP
from tools.text import clean


class DetailScreen(ModalScreen[None]):
    """Scrolls in both directions; text can be selected and copied."""

    CSS_PATH = "detail.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back"),
        Binding("y", "copy", "copy"),
        Binding("w", "wrap", "wrap"),
        HELP,
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = line(title)
        self._text = clean(text)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._title), id="detail-title")
        yield TextArea(self._text, read_only=True, soft_wrap=False, show_line_numbers=False, compact=True)
        yield Static(Content("↑↓←→ move · w wrap · y copy · esc back"), id="detail-keys")

    def action_copy(self) -> None:
        area = self.query_one(TextArea)
        self.app.copy_to_clipboard(area.selected_text or area.text)
        self.notify("Copied.")

    def action_wrap(self) -> None:
        area = self.query_one(TextArea)
        area.soft_wrap = not area.soft_wrap
