"""A skin as styles that can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rich.color import Color
from rich.style import Style

from themes.skin import Skin


@dataclass(frozen=True)
class Palette:
    """Styles by role. A style of a role colours the foreground on the conversation's background."""

    skin: Skin

    def style(
        self, role: str, background: str = "background", *, bold: bool = False, italic: bool = False
    ) -> Style:
        """The style of text in `role` on the background of another role."""
        colors = self.skin.colors
        return _style(colors[role], colors[background], bold, italic)


@lru_cache(maxsize=512)
def _style(foreground: str, background: str, bold: bool, italic: bool) -> Style:
    return Style(
        color=_color(foreground), bgcolor=_color(background), bold=bold or None, italic=italic or None
    )


def _color(name: str) -> Color:
    """A colour of a skin; `ansi_bright_red` and the like are those of the terminal."""
    return Color.parse(name.removeprefix("ansi_") if name.startswith("ansi_") else name)
