"""Outside text on screens: as one line, or in full; never as markup, with what cannot be seen spelled out."""

from __future__ import annotations

import re

from app.tui.screens.skin_of import palette_of
from tools.text.safe_text import left_out, reveal
from widgets.rows.reader import Reader
from widgets.rows.reader_rows import Gutter

LINE_CHARS = 400
"""Characters of a name or a choice that a dialog shows; `o` opens all of them."""


class Skinned(Reader):
    """A text in the skin of the application."""

    def on_mount(self) -> None:
        self._wear_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._wear_skin())

    def _wear_skin(self) -> None:
        self.use(palette_of(self.app))


def line(text: str, limit: int = 4_000) -> str:
    """Outside text as one line, with what cannot be seen spelled out; of a huge one, start and end."""
    if len(text) > limit:
        half = limit // 2
        text = text[:half] + left_out(len(text) - 2 * half, len(text)) + text[-half:]
    return " ".join(reveal(text).split())


def words(
    text: str,
    classes: str = "",
    *,
    role: str = "text",
    marks: re.Pattern[str] | None = None,
    gutter: int | Gutter = 0,
) -> Skinned:
    """Outside text in full, never read as markup, with what cannot be seen spelled out."""
    return Skinned(text, reveal, marks=marks, role=role, background="surface", gutter=gutter, classes=classes)
