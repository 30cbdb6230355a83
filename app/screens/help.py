"""Help: every command with its key and its slash word."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from app.commands import COMMANDS, Command, grouped

EVERYWHERE = (
    ("⏎", "send; open a card; take a choice"),
    ("esc", "back; in the prompt: stop the turn"),
    ("space", "fold or unfold"),
    ("/", "filter a list; in the prompt: commands"),
    ("g G", "first, last"),
    ("n N", "next, previous match"),
    ("y", "copy"),
    ("j k", "down, up (arrows work too)"),
    ("tab", "next region"),
)
"""Keys that mean the same wherever they work."""


class HelpScreen(ModalScreen[None]):
    """All commands and keys on one page that scrolls."""

    CSS_PATH = "help.tcss"
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,question_mark", "dismiss", "back"),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
        Binding("g", "scroll('home')", show=False),
        Binding("G", "scroll('end')", show=False),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(page())
        yield Static(Content("↑↓ PgUp PgDn scroll · esc back"), id="help-keys")

    def action_scroll(self, where: str) -> None:
        area = self.query_one(VerticalScroll)
        {
            "down": area.scroll_down,
            "up": area.scroll_up,
            "home": area.scroll_home,
            "end": area.scroll_end,
        }[where](animate=False)


def page(commands: tuple[Command, ...] = COMMANDS) -> Content:
    """The text of the help screen. Pure."""
    parts: list[str | tuple[str, str]] = []
    for group, members in grouped(commands):
        parts.append((f"{group}\n", "bold $accent"))
        for each in members:
            slash = f"/{each.slash}" if each.slash else ""
            parts += [f"  {each.keys_shown:<10}", (f"{slash:<11}", "$accent"), f"{each.name}\n"]
            parts.append((f"{'':23}{each.description}\n", "$text-muted"))
        parts.append("\n")
    parts.append(("The same everywhere\n", "bold $accent"))
    parts += [f"  {keys:<10}{words}\n" for keys, words in EVERYWHERE]
    return Content.assemble(*parts)
