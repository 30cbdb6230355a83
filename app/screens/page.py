"""What screens of rows share: a title with a state, the rows, the keys that work there."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.screens.closable import ClosableModal
from app.screens.keyline import KeyLine
from app.screens.wording import line
from themes.skin import Skin
from widgets.palette import Palette
from widgets.rows import RowList

Outcome = TypeVar("Outcome")

HELP = Binding("f1,question_mark", "app.order('program.help')", "Help", show=False, id="page.help")
"""For screens where nothing is written."""


class Page(ClosableModal[Outcome]):
    """A screen that shows one list of rows in full size. Draws in the skin of the application.

    Textual calls `on_mount` of each class by itself, the most special first.
    """

    CSS_PATH = "page.tcss"
    AUTO_FOCUS = "RowList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "back", "Back", id="page.back"), HELP]
    heading: ClassVar[str] = ""
    """What the screen shows, in a word or two."""
    keys: ClassVar[str] = "/ filter · y copy · ? help · esc back"
    """The keys at its foot."""

    def __init__(self, rows: RowList) -> None:
        super().__init__()
        self.rows = rows
        rows.margin = 2  # as its title has

    def compose(self) -> ComposeResult:
        with Horizontal(id="page-top"):
            yield Static(Content(self.heading), id="page-title")
            yield Static(id="page-state")
        yield self.rows
        yield from self.below()
        yield KeyLine(self.keys, id="page-keys")

    def below(self) -> list[Widget]:
        """Widgets between the rows and the keys."""
        return []

    def on_mount(self) -> None:
        self._wear_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._wear_skin())

    def state(self, text: str) -> None:
        """Say something at the right end of the title; nothing once the screen is gone."""
        for place in self.query("#page-state").results(Static):
            place.update(Content(line(text)))

    def action_back(self) -> None:
        self.dismiss(None)

    def _wear_skin(self) -> None:
        self.rows.use(Palette(getattr(self.app, "skin", None) or Skin()))
