"""Rows as bytes for the terminal, with no more changes of style than can be seen.

Textual names the whole style before each run and takes it back behind it, which is two thirds of the bytes
of a row. Blanks look alike in all styles of one background, so they go along with the words beside them.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual.strip import Strip

ROWS = 512
"""Rows whose bytes are kept."""
STYLES = 2_048
"""Styles that are remembered; each address of a link is one of its own."""

_RESET = "\x1b[0m"


class _Look(NamedTuple):
    """A style as a terminal is told of it."""

    style: Style | None
    """Held, so that its identity stays its own."""
    code: str
    """The sequence that brings it about, whatever was before."""
    ground: str | None
    """The same for blanks; None where a blank is seen, as an underlined one is."""


_PLAIN = _Look(None, _RESET, _RESET)


class RowEncoder:
    """Rows as bytes, kept as long as they are likely to be wanted again. Each leaves no style behind."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        self._rows: dict[int, tuple[Strip, str]] = {}
        """Rows and their bytes, by the identity of the row."""
        self._looks: dict[int, _Look] = {}
        """Styles by their identity."""

    def written(self, row: Strip) -> str:
        """The bytes of a row."""
        known = self._rows.get(id(row))
        if known is None:
            if len(self._rows) >= ROWS:
                self._rows.clear()
            known = self._rows[id(row)] = (row, self._written(row))
        return known[1]

    def _written(self, row: Strip) -> str:
        done: list[str] = []
        shown = waiting = _PLAIN
        blanks = ""  # those that wait for words on their ground
        for text, style, control in row:
            if control or (style is not None and style.link):
                return row.render(self._console)
            look = self._look(style)
            if blanks and look.ground != waiting.ground:
                done += (waiting.code, blanks)
                shown, blanks = waiting, ""
            if look.ground is not None and text.isspace():
                if not blanks and look.ground == shown.ground:
                    done.append(text)
                else:
                    waiting, blanks = look, blanks + text
                continue
            if look.code != shown.code:
                done.append(look.code)
            done += (blanks, text)
            shown, blanks = look, ""
        if blanks:
            done += (waiting.code, blanks)
            shown = waiting
        return "".join(done) if shown.code == _RESET else "".join((*done, _RESET))

    def _look(self, style: Style | None) -> _Look:
        if style is None:
            return _PLAIN
        known = self._looks.get(id(style))
        if known is None:
            if len(self._looks) >= STYLES:
                self._looks.clear()
            ground = None if _shows_blanks(style) else self._code(style.background_style)
            known = self._looks[id(style)] = _Look(style, self._code(style), ground)
        return known

    def _code(self, style: Style) -> str:
        codes = Strip.render_ansi(style, self._system)
        return f"\x1b[0;{codes}m" if codes else _RESET


def _shows_blanks(style: Style) -> bool:
    """Whether a blank in this style shows more than its background."""
    lines = style.underline or style.underline2 or style.strike or style.overline
    return bool(lines or style.reverse or style.frame or style.encircle)
