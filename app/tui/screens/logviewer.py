"""The log of the program itself: its last lines, as they come."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from app.tui.screens.detail import DetailScreen
from app.tui.screens.log_tail import LogLine, LogTail, UnreadableLogError
from app.tui.screens.page import Page
from tools.text.words import plural
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit

POLL = 0.5
"""Seconds between two looks at the file."""
KEPT = 5_000
"""Lines that can be scrolled back to."""
LEVELS = {"errors": logging.ERROR, "warnings": logging.WARNING, "all": logging.NOTSET}
GLYPHS = ((logging.ERROR, "✗", "error"), (logging.WARNING, "◆", "warning"), (logging.NOTSET, " ", "dim"))
"""Lowest level, glyph and role of its lines."""


class LogScreen(Page[None]):
    """Follows the file until it is closed."""

    heading = "Log"
    keys = "e errors · w warnings · a all · ⏎ in full · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "level('errors')", "Errors only", id="logs.errors"),
        Binding("w", "level('warnings')", "Warnings and errors", id="logs.warnings"),
        Binding("a", "level('all')", "All lines", id="logs.all"),
    ]

    def __init__(self, tail: LogTail) -> None:
        self._lines = LogRows()
        super().__init__(self._lines)
        self._tail = tail
        self._shown = "all"

    def on_mount(self) -> None:
        self._follow()

    @work(exclusive=True, group="follow")
    async def _follow(self) -> None:
        while True:
            try:
                news = await asyncio.to_thread(self._tail.read)
            except UnreadableLogError as error:
                self._lines.explain(str(error))
            else:
                self._lines.take(news.lines, anew=news.anew)
            self._tell()
            await asyncio.sleep(POLL)

    def action_level(self, name: str) -> None:
        self._shown = name
        self._lines.use_level(LEVELS[name])
        self._tell()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.app.push_screen(DetailScreen("Log", self._lines.text(event.index)))

    def _tell(self) -> None:
        number = self._lines.count
        if self._shown == "warnings":
            said = f"{number:,} {'warning or error' if number == 1 else 'warnings and errors'}"
        else:
            said = plural(number, {"all": "line", "errors": "error"}[self._shown])
        self.state(f"{said}{' · following' if self._lines.follows else ''}")


class LogRows(RowList):
    """The lines of one level and above, a row each; the newest stays in view."""

    def __init__(self) -> None:
        super().__init__(self._draw_line, search_text=self.text, empty="Reading …", follow=True)
        self._all: list[LogLine] = []
        self._rows: list[LogLine] = []
        self._level = logging.NOTSET

    def text(self, index: int) -> str:
        """The whole line."""
        return self._rows[index].text

    def take(self, lines: tuple[LogLine, ...], *, anew: bool) -> None:
        """More lines; `anew` when they take the place of the others."""
        if anew:
            self._all, self._rows = [], []
        self._all = [*self._all, *lines][-KEPT:] if lines else self._all
        shown = [line for line in lines if line.level >= self._level]
        over = max(len(self._rows) + len(shown) - KEPT, 0)
        self.empty = self._nothing()
        if anew:
            self._rows = shown[-KEPT:]
            self.reset(len(self._rows))
        elif shown:
            self._rows += shown
            self.appended(len(shown))
            if over:
                del self._rows[:over]
                self.dropped(over)

    def use_level(self, level: int) -> None:
        """Show only lines of this level and above."""
        self._level = level
        self._rows = [line for line in self._all if line.level >= level]
        self.empty = self._nothing()
        self.reset(len(self._rows))
        if self._rows:
            self.move_to(len(self._rows) - 1)

    def explain(self, sentence: str) -> None:
        """There is nothing to show, and why."""
        self._all, self._rows = [], []
        self.empty = sentence
        self.reset(0)

    def _nothing(self) -> str:
        return "The log is empty." if not self._all else "No line of this level; a shows all."

    def _draw_line(self, index: int, width: int) -> list[Text]:
        entry = self._rows[index]
        glyph, role = next((glyph, role) for least, glyph, role in GLYPHS if entry.level >= least)
        line = Text(" ", self.ink("text")).append(f"{glyph} ", self.ink(role))
        if entry.time:
            line.append(f"{entry.time} ", self.ink("dim")).append(f"{entry.name} ", self.ink("dim"))
            line.append(entry.message, self.ink("text"))
        else:
            line.append(f"  {entry.message}", self.ink("dim"))
        return [fit(line, width - 1)]
