"""A host for screens of rows, in a skin, with what was told to the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from tests.support.waiting import until
from themes.loader import load_skin
from widgets.palette import css_variables, textual_theme
from widgets.rows.row_list import RowList


class PageHost(App[None]):
    """Shows one screen and keeps what it ended with."""

    def __init__(self, screen: Callable[[], Screen[Any]], skin: str = "night") -> None:
        self.skin = load_skin(skin).skin
        super().__init__()
        self._shown = screen
        self.outcomes: list[Any] = []
        self.copied: list[str] = []
        self.told: list[str] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(self.skin)

    def on_mount(self) -> None:
        theme = textual_theme(self.skin)
        self.register_theme(theme)
        self.theme = theme.name
        self.push_screen(self._shown(), self.outcomes.append)

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)

    def notify(self, message: str, **options: Any) -> None:
        self.told.append(message)
        if not options.get("quiet"):
            super().notify(message, **options)


def lines_of(rows: RowList) -> list[str]:
    """What a list shows, line by line."""
    return [rows.render_line(y).text.rstrip() for y in range(rows.size.height)]


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until no work is left, including work that earlier work started."""
    for _ in range(2):
        await pilot.pause(0.05)
        await until(pilot, lambda: len(pilot.app.workers) == 0, "the end of all work")
    await pilot.pause(0.1)


def pressing(*keys: str) -> Any:
    """For pictures: wait until all is there, press the keys, wait again."""

    async def press(pilot: Pilot[None]) -> None:
        await settled(pilot)
        for key in keys:
            await pilot.press(key)
        await settled(pilot)

    return press
