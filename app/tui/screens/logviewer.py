"""The program's own log, followed live from its last lines."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from agent.errors import HermesError
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import FollowedRows
from app.tui.screens.page import Page
from themes.states import DOUBT, state_glyph
from tools.kit.files import NotAFileError, open_file
from tools.text.redact import Redactor, secret_values
from tools.text.safe_text import reveal
from tools.text.words import plural
from widgets.rows.row_list import RowList

TAIL_BYTES = 512 * 1024
"""The largest number of bytes that are read at one time."""
LINE_CHARS = 4_000
"""The number of characters of a line that are kept."""

_RECORD = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?:,\d+)? (?P<process>\d+) "
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<name>\S+) ?(?P<message>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log. A line after a record, as in a traceback, has the record's level and no time."""

    text: str
    """The whole line, safe to display."""
    level: int = logging.INFO
    """The level, as in the logging module."""
    time: str = ""
    name: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """The lines read by one call. If `replaces` is true, they replace all lines read before."""

    lines: tuple[LogLine, ...] = ()
    replaces: bool = False


class UnreadableLogError(HermesError):
    """Raised if the log cannot be read; the text is a sentence for the user."""


class LogTail:
    """Follows a log file through growth, truncation and rotation. Blocking; use it in a thread."""

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._secrets = secret_values(environ)
        self._file: tuple[int, int] | None = None
        self._forget()

    def read(self) -> LogUpdate:
        """Return the lines added since the last call, at first the last ones. Raises `UnreadableLogError`."""
        try:
            with os.fdopen(open_file(self._path.resolve(strict=True)), "rb") as file:
                return self._read(file.fileno())
        except FileNotFoundError:
            self._file = None
            raise UnreadableLogError(
                f"There is no log at {reveal(str(self._path))} yet; nothing was worth noting so far."
            ) from None
        except (OSError, NotAFileError, RuntimeError) as error:
            self._file = None
            reason = getattr(error, "strerror", None) or str(error)
            raise UnreadableLogError(
                f"The log {reveal(str(self._path))} cannot be read: {reveal(str(reason))}."
            ) from None

    def _read(self, descriptor: int) -> LogUpdate:
        status = os.fstat(descriptor)
        file, size = (status.st_dev, status.st_ino), status.st_size
        # Another file, a shorter one, or too many new lines to follow: start again.
        replaces = file != self._file or size < self._offset or size - self._offset > TAIL_BYTES
        if replaces:
            self._forget()
            self._file = file
            self._offset = max(size - TAIL_BYTES, 0)
            # The tail starts within a line: drop the partial line, as it may be part of a secret.
            self._within = self._offset > 0
        data = os.pread(descriptor, min(size - self._offset, TAIL_BYTES), self._offset)
        self._offset += len(data)
        return LogUpdate(tuple(self._lines(data)), replaces)

    def _forget(self) -> None:
        self._offset = 0
        self._rest = b""
        self._within = False
        self._redactor = Redactor(self._secrets)
        self._level = logging.INFO

    def _lines(self, data: bytes) -> Iterator[LogLine]:
        if self._within:
            _, newline, data = data.partition(b"\n")
            self._within = not newline
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > TAIL_BYTES:
            self._rest, self._within = b"", True
        if not newline:
            return
        for raw in whole.decode("utf-8", "replace").split("\n"):
            # Line by line: one long call would block all other threads.
            if masked := self._redactor.feed(raw + "\n"):
                yield self._line(masked.removesuffix("\n"))

    def _line(self, raw: str) -> LogLine:
        cut = len(raw) > LINE_CHARS
        text = reveal(raw[:LINE_CHARS]).replace("\t", "    ") + (" …" if cut else "")
        record = _RECORD.fullmatch(text)
        if record is None:
            return LogLine(text, self._level, message=text)
        self._level = logging.getLevelNamesMapping()[record["level"]]
        return LogLine(text, self._level, record["time"], record["name"], record["message"])


POLL = 0.5
"""Seconds between two reads of the file."""
LEVELS = {"all": logging.NOTSET, "warnings": logging.WARNING, "errors": logging.ERROR}
GLYPHS = (
    (logging.ERROR, *state_glyph("failed")),
    (logging.WARNING, DOUBT, "warning"),
    (logging.NOTSET, " ", "dim"),
)
"""Glyph and colour role of lines, by their lowest level."""


class LogScreen(Page[None]):
    """The screen that follows the log file until it is closed."""

    heading = "Log"
    keys = "⏎ in full · s level · / filter · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "level", "All lines, warnings and errors, or errors only", id="logs.level"),
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
                self._lines.take(news.lines, replace=news.replaces)
            self._show_state()
            await asyncio.sleep(POLL)

    def action_level(self) -> None:
        names = list(LEVELS)
        self._shown = names[(names.index(self._shown) + 1) % len(names)]
        self._lines.level = LEVELS[self._shown]
        self._lines.accept_again()
        self._show_state()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.app.push_screen(DetailScreen("Log", self._lines.entries[event.index].text))

    def _show_state(self) -> None:
        number = self._lines.count
        if self._shown == "warnings":
            said = f"{number:,} {'warning or error' if number == 1 else 'warnings and errors'}"
        else:
            said = plural(number, {"all": "line", "errors": "error"}[self._shown])
        self.offer(not self._lines.problem)
        self.state(f"{said}{' · following' if self._lines.follows else ''}")


class LogRows(FollowedRows[LogLine]):
    """One row for each line of at least the chosen level."""

    def __init__(self) -> None:
        super().__init__(words=lambda line: line.text, empty="Reading …")
        self.level = logging.NOTSET

    def accepts(self, entry: LogLine) -> bool:
        return entry.level >= self.level

    def hint(self, some: bool) -> str:
        return "No line of this level; s shows others." if some else "The log is empty."

    def draw_entry(self, entry: LogLine) -> Text:
        glyph, role = next((glyph, role) for least, glyph, role in GLYPHS if entry.level >= least)
        line = Text(" ", self.ink("text")).append(f"{glyph} ", self.ink(role))
        if entry.time:
            line.append(f"{entry.time} ", self.ink("dim")).append(f"{entry.name} ", self.ink("dim"))
            return line.append(entry.message, self.ink("text"))
        return line.append(f"  {entry.message}", self.ink("dim"))
