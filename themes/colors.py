"""Colours of a skin: how they are written, and what they look like in numbers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

DEFAULT = "ansi_default"
"""The terminal's own foreground or background, whatever it is."""

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_XTERM = (
    *(0x000000, 0xCD0000, 0x00CD00, 0xCDCD00, 0x0000EE, 0xCD00CD, 0x00CDCD, 0xE5E5E5),
    *(0x7F7F7F, 0xFF0000, 0x00FF00, 0xFFFF00, 0x5C5CFF, 0xFF00FF, 0x00FFFF, 0xFFFFFF),
)
TERMINAL_COLORS = (*(f"ansi_{name}" for name in _NAMES), *(f"ansi_bright_{name}" for name in _NAMES))
"""The sixteen colours that every terminal lets its owner choose."""

_VALUES = dict(zip(TERMINAL_COLORS, _XTERM, strict=True))
_HEX = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})")


class RGB(NamedTuple):
    """Red, green and blue, 0 to 255."""

    red: int
    green: int
    blue: int

    @property
    def hex(self) -> str:
        """As a skin writes it: `#rrggbb`."""
        return f"#{self.red:02x}{self.green:02x}{self.blue:02x}"


def normalized(text: str) -> str | None:
    """A colour as skins keep it (`#rrggbb` or `ansi_…`, lower case), None when `text` is none."""
    color = text.strip().lower()
    if color == DEFAULT or color in _VALUES:
        return color
    if not _HEX.fullmatch(color):
        return None
    return "#" + "".join(digit * 2 for digit in color[1:]) if len(color) == 4 else color


def is_terminal(color: str) -> bool:
    """Whether the terminal, not the skin, decides what `color` looks like."""
    return color.startswith("ansi_")


def rgb(color: str, *, default: RGB) -> RGB:
    """The numbers of a normalised colour.

    A terminal's own colours count as xterm shows them; `ansi_default` counts as `default`.
    """
    if color == DEFAULT:
        return default
    value = _VALUES[color] if is_terminal(color) else int(color[1:], 16)
    return RGB(value >> 16, value >> 8 & 0xFF, value & 0xFF)


@lru_cache(maxsize=1024)
def luminance(color: RGB) -> float:
    """Relative luminance as WCAG 2 defines it: 0 for black, 1 for white."""
    red, green, blue = (_linear(channel / 255) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: RGB, other: RGB) -> float:
    """Contrast ratio as WCAG 2 defines it: 1 for equal colours, 21 for black on white."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def blend(color: RGB, towards: RGB, share: float) -> RGB:
    """`color` moved to `towards` by `share` (0 to 1)."""
    return RGB(*(round(own + (aim - own) * share) for own, aim in zip(color, towards, strict=True)))


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
