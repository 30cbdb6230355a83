"""Screens with rows and, beside or below them, what is to be seen of the row under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widget import Widget

from app.tui.screens.page import PAGE_STYLE, Page
from widgets.rows.row_list import Draw, RowList

Outcome = TypeVar("Outcome")

BESIDE = 100
"""Columns from which on the rows have what is to be seen of them beside them."""
PAUSE = 0.08
"""Seconds the cursor rests on a row before it is looked at."""


class PointedRows(RowList):
    """Rows that tell where the cursor is."""

    class Pointed(Message):
        """The cursor is on another row, or the row has changed; None: there is none."""

        def __init__(self, index: int | None) -> None:
            super().__init__()
            self.index = index

    def __init__(self, draw: Draw, *, search_text: Callable[[int], str] | None = None, empty: str) -> None:
        super().__init__(draw, search_text=search_text, empty=empty)
        self._told: int | None = -1

    def cursor_moved(self) -> None:
        super().cursor_moved()
        if self._told != self.cursor:
            self._told = self.cursor
            self.post_message(self.Pointed(self.cursor))

    def repaint(self) -> None:
        super().repaint()
        if self.is_running:
            self.cursor_moved()


class SplitPage(Page[Outcome]):
    """Rows on one side; `beside` gives the widgets of the other."""

    CSS_PATH: ClassVar = [PAGE_STYLE, Path(__file__).with_name("split.tcss")]

    def compose(self) -> ComposeResult:
        yield self.head
        with Container(id="split"):
            yield self.rows
            with Vertical(id="split-beside"):
                yield from self.beside()
        yield self.foot

    def beside(self) -> Iterable[Widget]:
        """What is to be seen of the row under the cursor."""
        raise NotImplementedError

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < BESIDE, "narrow")
