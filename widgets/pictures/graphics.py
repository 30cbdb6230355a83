"""The ways a terminal can show pictures."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Graphics(Enum):
    """The ways to show pictures."""

    OFF = "off"
    BLOCKS = "blocks"
    """As half blocks, two pixels a cell."""
    KITTY = "kitty"
    """By the graphics protocol of Kitty, with placeholders among the text; Ghostty has it too."""
    SIXEL = "sixel"
    """As sixel graphics, a strip for each row. Terminals are asked whether they have them."""


_KITTY_TERMS = ("xterm-kitty", "xterm-ghostty")
_BETWEEN = ("TMUX", "STY", "ZELLIJ")
"""Variables of programs between us and the terminal, which do not pass its graphics on."""


def graphics_of(wanted: str, environ: Mapping[str, str], colours: str | None) -> Graphics:
    """Return the way to show pictures, from setting, environment and the console's colour system. Pure."""
    if wanted != "auto":
        return Graphics(wanted)
    if environ.get("NO_COLOR") or colours not in ("256", "truecolor"):
        return Graphics.OFF
    has_kitty = environ.get("TERM") in _KITTY_TERMS or bool(environ.get("KITTY_WINDOW_ID"))
    if has_kitty and colours == "truecolor" and not any(environ.get(name) for name in _BETWEEN):
        return Graphics.KITTY
    return Graphics.BLOCKS
