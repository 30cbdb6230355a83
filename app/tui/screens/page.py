"""Base of screens of rows: a title with a state, the rows, the keys that work there."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from app.tui.screens.closable import ClosableModal
from app.tui.screens.head import ScreenHeader
from app.tui.screens.keyline import KeyLine
from app.tui.screens.skin_of import palette_of
from widgets.rows.row_list import RowList

Outcome = TypeVar("Outcome")

PAGE_STYLE = Path(__file__).with_name("page.tcss")
"""Its stylesheet; named in full, as Textual looks for others beside the module of the subclass."""
WAYS_OUT = "? help · esc back"
"""The keys of a page without rows."""
HELP = Binding("f1,question_mark", "app.order('program.help')", "Help", show=False, id="page.help")
"""For screens where nothing is written."""


class Page(ClosableModal[Outcome]):
    """A screen that shows one list of rows in full size. Draws in the skin of the application.

    Textual calls `on_mount` of each class by itself, the most special first.
    """

    CSS_PATH: ClassVar = PAGE_STYLE
    AUTO_FOCUS = "RowList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "back", "Back", id="page.back"), HELP]
    heading: ClassVar[str] = ""
    """What the screen shows, in a word or two."""
    keys: ClassVar[str] = "/ filter · y copy · ? help · esc back"
    """The keys at its foot."""

    def __init__(self, rows: RowList) -> None:
        super().__init__()
        self.rows = rows
        self.head = ScreenHeader(self.heading)
        self.foot = KeyLine(self.keys)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.rows
        yield from self.below()
        yield self.foot

    def below(self) -> list[Widget]:
        """Widgets between the rows and the keys."""
        return []

    def on_mount(self) -> None:
        self._wear_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._wear_skin())

    def state(self, text: str) -> None:
        """Say something at the right end of the title."""
        self.head.say(text)

    def offer(self, some: bool) -> None:
        """Say the keys that work: all where there are `some` rows, else those that lead elsewhere."""
        self.set_class(not some, "bare")
        self.foot.say(self.keys if some else WAYS_OUT)

    def action_back(self) -> None:
        self.dismiss(None)

    def _wear_skin(self) -> None:
        self.rows.use(palette_of(self.app))
