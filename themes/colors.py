"""Colours of skins, and their reduction to a terminal's colours."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

from themes.skin import ROLES, Skin
from tools.kit.lazy_pattern import lazy_pattern

DEFAULT = "ansi_default"
"""The terminal's own foreground or background, whatever it is."""

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_XTERM = (
    *(0x000000, 0xCD0000, 0x00CD00, 0xCDCD00, 0x0000EE, 0xCD00CD, 0x00CDCD, 0xE5E5E5),
    *(0x7F7F7F, 0xFF0000, 0x00FF00, 0xFFFF00, 0x5C5CFF, 0xFF00FF, 0x00FFFF, 0xFFFFFF),
)
TERMINAL_COLORS = (*(f"ansi_{name}" for name in _NAMES), *(f"ansi_bright_{name}" for name in _NAMES))
"""The sixteen colours that users can choose in every terminal."""

_VALUES = dict(zip(TERMINAL_COLORS, _XTERM, strict=True))
_HEX = lazy_pattern(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})")


class RGB(NamedTuple):
    """Red, green and blue, 0 to 255."""

    red: int
    green: int
    blue: int

    @property
    def hex(self) -> str:
        """The colour as in skin files: `#rrggbb`."""
        return f"#{self.red:02x}{self.green:02x}{self.blue:02x}"


def normalize_color(text: str) -> str | None:
    """Return a colour in normal form (`#rrggbb` or `ansi_…`, lower case); None if `text` is not one."""
    color = text.strip().lower()
    if color == DEFAULT or color in _VALUES:
        return color
    if not _HEX.fullmatch(color):
        return None
    return "#" + "".join(digit * 2 for digit in color[1:]) if len(color) == 4 else color


def is_terminal(color: str) -> bool:
    """Return whether the terminal, not the skin, defines `color`."""
    return color.startswith("ansi_")


def rgb(color: str, *, default: RGB) -> RGB:
    """Return the RGB values of a normalised colour.

    Terminal colours have xterm's values; `ansi_default` has the value `default`.
    """
    if color == DEFAULT:
        return default
    value = _VALUES[color] if is_terminal(color) else int(color[1:], 16)
    return RGB(value >> 16, value >> 8 & 0xFF, value & 0xFF)


@lru_cache(maxsize=1024)
def luminance(color: RGB) -> float:
    """Return the relative luminance by WCAG 2: 0 for black, 1 for white."""
    red, green, blue = (_linear(channel / 255) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: RGB, other: RGB) -> float:
    """Return the contrast ratio by WCAG 2: 1 for equal colours, 21 for black on white."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def blend(color: RGB, towards: RGB, share: float) -> RGB:
    """Return `color` mixed with `towards`, which makes up `share` (0 to 1) of the result."""
    return RGB(*(round(own + (aim - own) * share) for own, aim in zip(color, towards, strict=True)))


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


Depth = Literal["full", "many", "sixteen", "none"]
"""Any colour; the 256 of xterm; the sixteen of the terminal; no colour at all."""

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
"""The hue, in degrees of the colour wheel, up to which each name applies."""
_ON_LIGHT = {"ansi_yellow": "ansi_magenta"}
"""Replacements on a light background, where yellow is unreadable in the default palettes."""

_RICH_TERMS = ("direct", "kitty", "ghostty", "alacritty", "wezterm", "foot", "konsole", "iterm")
"""Parts of the names of terminals with more than sixteen colours; over ssh only the name is known."""

_GREY = 0.16
"""Saturation times value below which a colour is a grey."""


def detect(environ: Mapping[str, str]) -> Depth:
    """Return the colour depth of this environment's terminal. `NO_COLOR` (no-color.org) comes first."""
    if environ.get("NO_COLOR"):
        return "none"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "full"
    term = environ.get("TERM", "").lower()
    if term in ("", "dumb", "unknown"):
        return "none"
    if any(mark in term for mark in _RICH_TERMS):
        return "full"
    return "many" if "256" in term else "sixteen"


def adapt_skin(skin: Skin, depth: Depth, *, light: bool = False) -> Skin:
    """Return `skin` reduced to the colour `depth`; a skin that already fits is returned unchanged.

    `light` tells whether the terminal's background is light.
    """
    if depth == "full":
        colors = skin.colors
    elif depth == "many":
        colors = {role: _nearest(color) for role, color in skin.colors.items()}
    elif depth == "none":
        colors = dict.fromkeys(ROLES, DEFAULT)
    else:
        colors = {role: _sixteenth(role, color) for role, color in skin.colors.items()}
    if light and colors["background"] == DEFAULT:
        colors = {role: _ON_LIGHT.get(color, color) for role, color in colors.items()}
    return skin if colors == skin.colors else replace(skin, colors=colors)


def _nearest(color: str) -> str:
    """Return the nearest of xterm's 256 colours."""
    if is_terminal(color):
        return color
    wanted = rgb(color, default=RGB(0, 0, 0))
    cube = RGB(*(min(_CUBE, key=lambda level: abs(level - each)) for each in wanted))
    grey = RGB(*(min(_GREYS, key=lambda level: abs(3 * level - sum(wanted))),) * 3)
    return min(cube, grey, key=lambda it: sum((a - b) ** 2 for a, b in zip(it, wanted, strict=True))).hex


_CUBE, _GREYS = (0, 95, 135, 175, 215, 255), range(8, 239, 10)


def _sixteenth(role: str, color: str) -> str:
    """Return the terminal colour with the meaning of `color` in `role`."""
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
