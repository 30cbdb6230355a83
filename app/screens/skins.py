"""Choosing a skin: moving through the list already shows each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from agent.errors import HermesError
from app.screens.dialog import line
from themes.loader import list_skins, load_skin

if TYPE_CHECKING:
    from app.application import HermesApp


class SkinsScreen(ModalScreen[str | None]):
    """Ends with the name of a skin, or None to go back to the one before. Lies at the right edge."""

    CSS_PATH = "skins.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back"),
        Binding("j", "move('down')", show=False),
        Binding("k", "move('up')", show=False),
        Binding("g", "move('first')", show=False),
        Binding("G", "move('last')", show=False),
    ]

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical(id="skins"):
            yield Static(Content("Skins"), id="skins-title")
            yield OptionList(id="skins-list", compact=True)
            yield Static(id="skins-about")
            yield Static(Content("↑↓ preview · ⏎ keep · esc back"), id="skins-keys")

    def on_mount(self) -> None:
        listed = self.query_one(OptionList)
        skins = list_skins(self._app.skins_folder)
        for skin in skins:
            listed.add_option(Option(Content(f"{skin.name}{' (yours)' if skin.own else ''}"), id=skin.name))
        names = [skin.name for skin in skins]
        listed.highlighted = names.index(self._current) if self._current in names else 0

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id is None or event.option_id == self._app.skin.name:
            return
        try:
            self._app.use_skin(event.option_id)
        except HermesError as error:
            self.query_one("#skins-about", Static).update(Content(line(str(error))))
            return
        skin = load_skin(event.option_id, self._app.skins_folder).skin
        self.query_one("#skins-about", Static).update(Content(line(skin.description)))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_move(self, where: str) -> None:
        listed = self.query_one(OptionList)
        {
            "down": listed.action_cursor_down,
            "up": listed.action_cursor_up,
            "first": listed.action_first,
            "last": listed.action_last,
        }[where]()

    @property
    def _app(self) -> HermesApp:
        return cast("HermesApp", cast(Any, self.app))
