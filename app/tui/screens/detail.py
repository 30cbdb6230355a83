"""A text on its own screen, and diffs as colored parts of a text."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from app.tui.screens.closable import ClosableModal
from app.tui.screens.page import HELP, KeyLine, ScreenHeader, Skinned, line
from tools.text.safe_text import clean, reveal
from widgets.rows.reader import ReaderLook, diff_tones


class DetailScreen(ClosableModal[None]):
    """A text on its own screen. It scrolls in both directions, and can be selected and copied.

    `spelled` keeps every character and spells out invisible ones, for texts that a person decides on; other
    texts are shown as a terminal would show them. `diffs` colours lines of unified diffs, which is the
    default for texts that are not spelled.
    """

    CSS_PATH: ClassVar = Path(__file__).with_name("detail.tcss")
    AUTO_FOCUS = "Reader"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back"),
        Binding("y", "copy", "copy"),
        HELP,
    ]

    def __init__(self, title: str, text: str, *, spelled: bool = False, diffs: bool = False) -> None:
        super().__init__()
        self._title = line(title)
        show = reveal if spelled else str
        shown = text if spelled else clean(text)
        tones = diffs or not spelled
        self.reader = Skinned(shown, show, wrap=spelled, look=ReaderLook(focusable=True), diffs=tones)

    def compose(self) -> ComposeResult:
        yield ScreenHeader(self._title)
        yield self.reader
        yield KeyLine("↑↓←→ move · w wrap · y copy · esc back")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.get_selected_text() or clean(self.reader.text))


MOST_LINES = 60
"""Lines that are shown; the whole difference has a screen of its own."""
LONGEST = 300
"""Characters of a line that are shown."""
_TONES = {"added": "$added", "removed": "$removed", "dim": "$text-muted"}


def difference_parts(text: str, more: str) -> list[tuple[str, str]]:
    """Return the first lines of a diff with their colours; `more` says where to see the rest. Outside text.
    Pure.
    """
    lines = text.splitlines()
    tones = diff_tones(lines)
    parts = [
        (f"{_cut(each)}\n", _TONES.get(tones.get(number, ""), ""))
        for number, each in enumerate(lines[:MOST_LINES])
    ]
    if len(lines) > MOST_LINES:
        parts.append((f"… {len(lines) - MOST_LINES:,} more lines; {more}\n", "$text-muted"))
    return parts


def _cut(line: str) -> str:
    return reveal(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")
