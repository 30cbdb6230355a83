"""The end of the log file as lines that are safe to show, read again as it grows.

Only the tail is ever read, however long the file is. Nothing of it is believed:
secrets are masked, what cannot be seen is spelled out, long lines are cut.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.errors import HermesError
from tools.kit.files import NotAFileError, open_file
from tools.text.redact import Redactor, secret_values
from tools.text.safe_text import reveal

TAIL_BYTES = 512 * 1024
"""Bytes read at most at one time."""
LINE_CHARS = 4_000
"""Characters kept of one line."""

_RECORD = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?:,\d+)? (?P<process>\d+) "
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<name>\S+) ?(?P<message>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. What follows a record without being one (a traceback) has its level and no time."""

    text: str
    """The whole line, as it may be shown."""
    level: int = logging.INFO
    """As the logging module counts."""
    time: str = ""
    name: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """What was read. `anew` says that it takes the place of everything read before."""

    lines: tuple[LogLine, ...] = ()
    anew: bool = False


class UnreadableLogError(HermesError):
    """There is nothing to read; the message is a sentence for the person."""


class LogTail:
    """Follows one file through growth, truncation and rotation. Blocking; use it in a thread."""

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._secrets = secret_values(environ)
        self._file: tuple[int, int] | None = None
        self._forget()

    def read(self) -> LogUpdate:
        """The lines that came since the last time. Raises `UnreadableLogError`."""
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
        # Another file, a shorter one, or more news than anybody could have followed: begin anew.
        anew = file != self._file or size < self._offset or size - self._offset > TAIL_BYTES
        if anew:
            self._forget()
            self._file = file
            self._offset = max(size - TAIL_BYTES, 0)
            # The tail begins within a line: half of it is no line, and may be half of a secret.
            self._within = self._offset > 0
        data = os.pread(descriptor, min(size - self._offset, TAIL_BYTES), self._offset)
        self._offset += len(data)
        return LogUpdate(tuple(self._lines(data)), anew)

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
            # Line by line: one long piece would keep all other threads waiting.
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
