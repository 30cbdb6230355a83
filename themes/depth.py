"""Colour depths of terminals, and skins brought down to them.

Colours are lost, states are not: a role that is left with `ansi_default` is told apart
by bold, dim, underline or reverse (see widgets/palette.py).
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from themes.colors import DEFAULT, RGB, is_terminal, rgb
from themes.skin import ROLES, Skin

Depth = Literal["full", "sixteen", "none"]
"""Any colour; the sixteen of the terminal; no colour at all."""

_BACKGROUNDS = frozenset(
    {"background", "surface", "selection", "match", "cursor", "code_background"}
    | {"added_background", "removed_background"}
)
_SEMANTIC = {
    "success": "ansi_green",
    "added": "ansi_green",
    "warning": "ansi_yellow",
    "error": "ansi_bright_red",
    "removed": "ansi_bright_red",
}
_QUIET = frozenset({"dim", "reasoning", "rule", "comment"})
# Plain red and blue are too dark on a black page in most palettes; their bright ones serve both pages.
_HUES = (
    (20, "ansi_bright_red"),
    (70, "ansi_yellow"),
    (165, "ansi_green"),
    (200, "ansi_cyan"),
    (265, "ansi_bright_blue"),
    (335, "ansi_magenta"),
    (360, "ansi_bright_red"),
)
"""Degrees of the colour wheel up to which a hue goes by a name."""

_RICH_TERMS = ("256", "direct", "kitty", "ghostty", "alacritty", "wezterm", "foot", "konsole", "iterm")
"""Parts of the names of terminals that show more than sixteen colours; over ssh only the name is left."""

_GREY = 0.16
"""Saturation times value below which a colour is a grey."""


def detect(environ: Mapping[str, str]) -> Depth:
    """What the terminal of this environment can show. `NO_COLOR` (no-color.org) comes first."""
    if environ.get("NO_COLOR"):
        return "none"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "full"
    term = environ.get("TERM", "").lower()
    if term in ("", "dumb", "unknown"):
        return "none"
    if any(mark in term for mark in _RICH_TERMS):
        return "full"
    return "sixteen"


def adapted(skin: Skin, depth: Depth) -> Skin:
    """`skin` as a terminal of `depth` can show it. A skin that fits already comes back unchanged."""
    if depth == "full":
        return skin
    if depth == "none":
        colors = dict.fromkeys(ROLES, DEFAULT)
    else:
        colors = {role: _sixteenth(role, color) for role, color in skin.colors.items()}
    return skin if colors == skin.colors else replace(skin, colors=colors)


def _sixteenth(role: str, color: str) -> str:
    """The colour of the terminal that says the same as `color` does in `role`."""
    if is_terminal(color):
        return color
    if role in _BACKGROUNDS | _QUIET:
        return DEFAULT
    if role in _SEMANTIC:
        return _SEMANTIC[role]
    return _by_hue(rgb(color, default=RGB(0, 0, 0)))


def _by_hue(color: RGB) -> str:
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in color))
    if saturation * value < _GREY:
        return DEFAULT
    return next(name for limit, name in _HUES if hue * 360 <= limit)
