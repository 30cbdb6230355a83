"""A skin as drawable styles.

A role with the colour `ansi_default` is distinguished by bold, dim, underline or reverse instead. So skins
for terminals without colours, and skins reduced by `themes.colors.adapt_skin`, keep every state distinct.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style

from themes.colors import DEFAULT
from themes.skin import Skin

if TYPE_CHECKING:
    from textual.theme import Theme

_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "dim": frozenset({"dim"}),
    "reasoning": frozenset({"dim"}),
    "rule": frozenset({"dim"}),
    "comment": frozenset({"dim"}),
    "removed": frozenset({"dim"}),
    "accent": frozenset({"bold"}),
    "user": frozenset({"bold"}),
    "added": frozenset({"bold"}),
    "keyword": frozenset({"bold"}),
    "function": frozenset({"underline"}),
    "warning": frozenset({"underline"}),
    "error": frozenset({"bold", "underline"}),
    "cursor": frozenset({"reverse"}),
}
"""The text attributes that replace the foreground of a role without a colour."""

_MARKS: Mapping[str, frozenset[str]] = {
    "accent": frozenset({"reverse"}),
    "selection": frozenset({"reverse"}),
    "cursor": frozenset({"reverse"}),
    "match": frozenset({"bold", "underline"}),
}
"""The text attributes that replace the background of a role without a colour."""


class Palette(NamedTuple):
    """Styles by role. A role's style is its foreground on the conversation's background."""

    skin: Skin

    @property
    def prompt_symbol(self) -> str:
        """The skin's symbol for the user's messages if it fills exactly one cell, else `❯`."""
        return glyph_of(self.skin.prompt_symbol, "❯")

    def style(
        self,
        role: str,
        background: str = "background",
        *,
        bold: bool = False,
        italic: bool = False,
        underline: bool = False,
        strike: bool = False,
    ) -> Style:
        """Return the style of a role's text on another's background. Raises `KeyError` if one is unknown."""
        colors = self.skin.colors
        extra = (bold, italic, underline, strike)
        return _style(role, colors[role], background, colors[background], extra)


def glyph_of(symbol: str, instead: str) -> str:
    """Return a skin's symbol if it fills exactly one cell, else `instead`."""
    return symbol if len(symbol) == 1 and cell_len(symbol) == 1 else instead


@lru_cache(maxsize=2048)
def _style(role: str, ink: str, ground: str, paper: str, extra: tuple[bool, bool, bool, bool]) -> Style:
    attributes: set[str] = set()
    if ink == DEFAULT:
        attributes |= _ATTRIBUTES.get(role, frozenset())
    if paper == DEFAULT:
        attributes |= _MARKS.get(ground, frozenset())
    bold, italic, underline, strike = extra
    # Dim and bold cancel each other out in many terminals; a caller that asks for bold means it.
    return Style(
        color=color_of(ink),
        bgcolor=color_of(paper),
        bold=bold or "bold" in attributes or None,
        dim=("dim" in attributes and not bold and "reverse" not in attributes) or None,
        italic=italic or None,
        underline=underline or "underline" in attributes or None,
        strike=strike or None,
        reverse="reverse" in attributes or None,
    )


@lru_cache(maxsize=512)
def color_of(color: str) -> Color:
    """Return a skin's colour for rich; names such as `ansi_bright_red` use the terminal's palette."""
    return Color.parse(color.removeprefix("ansi_"))


def textual_theme(skin: Skin) -> Theme:
    """Return `skin` as a theme for Textual's own widgets and for style sheets.

    Style sheets see each role as `$role`, with hyphens: `$background`, `$dim`, `$rule`,
    `$code-background`, `$added-background` … The role `text` is `$foreground`; `$text` stays
    Textual's, which picks black or white to suit the background.

    A style sheet is read before a theme is chosen; an application therefore also returns
    `css_variables(skin)` from its `get_theme_variable_defaults`.
    """
    from textual.theme import Theme

    colors = skin.colors
    return Theme(
        name=f"hermes-{skin.name}",
        primary=colors["accent"],
        secondary=colors["user"],
        accent=colors["accent"],
        warning=colors["warning"],
        error=colors["error"],
        success=colors["success"],
        foreground=colors["text"],
        background=colors["background"],
        surface=colors["surface"],
        panel=colors["surface"],
        boost=colors["surface"],
        dark=skin.dark,
        ansi=colors["background"].startswith("ansi_"),
        variables=css_variables(skin),
    )


def css_variables(skin: Skin) -> dict[str, str]:
    """Return the style sheet variables by name, without `$`."""
    colors = skin.colors
    roles = {role.replace("_", "-"): color for role, color in colors.items() if role != "text"}
    # Textual's own widgets do not reverse what is marked; black on white is there in every palette.
    bare = colors["selection"] == DEFAULT
    ink, paper = ("ansi_black", "ansi_white") if bare else (colors["text"], colors["selection"])
    return {
        **roles,
        "ansi-background": colors["background"],
        "ansi-foreground": colors["text"],
        "foreground-muted": colors["dim"],
        "text-muted": colors["dim"],
        "text-disabled": colors["dim"],
        "text-primary": colors["accent"],
        "text-accent": colors["accent"],
        "text-secondary": colors["user"],
        "text-success": colors["success"],
        "text-warning": colors["warning"],
        "text-error": colors["error"],
        "border": colors["accent"],
        "border-blurred": colors["rule"],
        "block-cursor-foreground": ink,
        "block-cursor-background": paper,
        "block-cursor-text-style": "none" if bare else "bold",  # bold black is grey in xterm
        "block-cursor-blurred-foreground": colors["text"],
        "block-cursor-blurred-background": colors["surface"],
        "block-cursor-blurred-text-style": "none",
        "block-hover-background": colors["surface"],
        "input-cursor-foreground": colors["background"],
        "input-cursor-background": colors["cursor"],
        "input-cursor-text-style": "reverse" if colors["cursor"] == DEFAULT else "none",
        "input-selection-foreground": ink,
        "input-selection-background": paper,
        "screen-selection-foreground": ink,
        "screen-selection-background": paper,
        "scrollbar": colors["rule"],
        "scrollbar-hover": colors["dim"],
        "scrollbar-active": colors["accent"],
        "scrollbar-background": colors["background"],
        "scrollbar-background-hover": colors["background"],
        "scrollbar-background-active": colors["background"],
        "scrollbar-corner-color": colors["background"],
        "link-color": colors["accent"],
        "link-color-hover": colors["accent"],
        "link-background-hover": colors["selection"],
        "footer-foreground": colors["text"],
        "footer-background": colors["surface"],
        "footer-key-foreground": colors["accent"],
        "footer-description-foreground": colors["dim"],
        "button-foreground": colors["text"],
        "button-color-foreground": colors["background"],
    }
