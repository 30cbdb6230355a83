"""One text on the whole screen: the detail of a card, with nothing cut off."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from app.tui.screens.closable import ClosableModal
from app.tui.screens.head import ScreenHeader
from app.tui.screens.keyline import KeyLine
from app.tui.screens.page import HELP
from app.tui.screens.wording import Skinned, line
from tools.text.safe_text import clean, reveal


class DetailScreen(ClosableModal[None]):
    """Scrolls in both directions; text can be selected and copied.

    `spelled` keeps every character and spells out what cannot be seen, for
    texts that a person decides on; others are shown as a terminal would.
    `diffs` draws lines of unified diffs in their colours; others do so unless they are spelled.
    """

    CSS_PATH: ClassVar = Path(__file__).with_name("detail.tcss")
    AUTO_FOCUS = "Reader"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back"),
        Binding("y", "copy", "copy"),
        HELP,
    ]

    def __init__(self, title: str, text: str, *, spelled: bool = False, diffs: bool = False) -> None:
        super().__init__()
        self._title = line(title)
        show = reveal if spelled else str
        shown = text if spelled else clean(text)
        tones = diffs or not spelled
        self.reader = Skinned(shown, show, wrap=spelled, focusable=True, margin=1, diffs=tones)

    def compose(self) -> ComposeResult:
        yield ScreenHeader(self._title)
        yield self.reader
        yield KeyLine("↑↓←→ move · w wrap · y copy · esc back")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.get_selected_text() or clean(self.reader.text))
        self.notify("Copied.")
