"""Output of commands: collected within a limit, checked for patterns, and rendered like a terminal."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.terminal.backend import COLUMNS, ROWS
from tools.text.redact import Redactor, redact
from tools.text.safe_text import Cleaner, clean, left_out

LIMIT = 50_000
"""The character limit of output in the conversation."""

HEAD = 0.4
"""Share of the limit for the beginning; the end matters more."""

SPOOL_BYTES = 50_000_000
"""The size limit in bytes of the file with the full output."""

_RAW_TAIL = 4 * LIMIT
_LIVE_CHARACTERS, _LIVE_LINES = 2_000, 20
"""How much of the newest output is shown while a command runs."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a finished command. `spool` is the file with all of the output, if the text was cut."""

    text: str
    total: int
    spool: Path | None = None
    spool_problem: str = ""
    """Why there is no complete file, or empty."""


class OutputCollector:
    """A collector of one command's output. Only the reader's thread may call `feed`."""

    def __init__(
        self,
        spool: Path,
        secrets: Mapping[str, str],
        limit: int = LIMIT,
        screen: Callable[[str], None] | None = None,
    ) -> None:
        """`screen` is called with each new piece of output."""
        self._screen = screen
        self._cleaner = Cleaner()
        self._secrets = secrets
        self._redactor = Redactor(secrets)
        self._head_room = int(limit * HEAD)
        self._limit = limit
        self._pieces: list[str] = []
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._total = 0
        self._path = spool
        self._spool: IO[bytes] | None = None
        self._spooled = 0
        self._problem = ""
        self._raw: bytearray | None = None
        self._raw_cut = False
        self._is_finished = False
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Add the next bytes of output."""
        with self._lock:
            if self._is_finished:
                return
            if self._raw is not None:
                # The file is full: only the end still matters, and it is cleaned once, at the end.
                self._total += len(data)
                self._raw += data
                if len(self._raw) > 2 * _RAW_TAIL:
                    del self._raw[:-_RAW_TAIL]
                    self._raw_cut = True
                return
            self._take(self._redactor.feed(self._cleaner.feed(data)))
            if self._spooled >= SPOOL_BYTES:
                self._take(self._redactor.feed(self._cleaner.finish()))
                self._raw = bytearray()

    def last_lines(self) -> str:
        """Return the newest lines, including the unfinished one."""
        with self._lock:
            recent = "".join([*self._pieces[-50:], *list(self._tail)[-50:]])[-_LIVE_CHARACTERS:]
            if self._raw is not None:
                recent += clean(self._raw[-_LIVE_CHARACTERS:].decode("utf-8", "replace"))
            else:
                recent += self._cleaner.pending()
        lines = recent[-_LIVE_CHARACTERS:].splitlines(keepends=True)[-_LIVE_LINES:]
        return redact("".join(lines), self._secrets)

    def finish(self) -> Output:
        """End the collection; return the text for the conversation, and a file with all if it was cut."""
        with self._lock:
            if self._raw is None:
                self._take(self._redactor.feed(self._cleaner.finish()))
            else:
                self._take_raw(self._raw)
            self._is_finished = True
            self._close_spool()
            if self._total <= self._limit:
                return Output("".join(self._pieces), self._total)
            return self._cut()

    def _cut(self) -> Output:
        room = self._limit - len(left_out(self._total, self._total))
        first = int(room * HEAD)
        tail = "".join(self._tail)[-(room - first) :]
        kept = self._head[:first]
        text = kept + left_out(self._total - len(kept) - len(tail), self._total) + tail
        if self._raw is not None:
            self._problem = f"only the first {SPOOL_BYTES // 1_000_000} MB were kept"
        return Output(text, self._total, None if self._spool is None else self._path, self._problem)

    def _take(self, text: str) -> None:
        if not text:
            return
        if self._screen is not None:
            self._screen(text)
        self._total += len(text)
        if self._total <= self._limit:
            self._pieces.append(text)
            return
        if not self._head:
            text = "".join(self._pieces) + text
            self._pieces.clear()
            self._head = text[: self._head_room]
            self._open_spool()
        self._write_spool(text)
        self._take_tail(text)

    def _take_raw(self, raw: bytearray) -> None:
        if self._raw_cut:
            # Begin with a whole line, without a gap after the earlier part.
            del raw[: raw.find(b"\n") + 1]
            self._tail.clear()
            self._tail_size = 0
        self._take_tail(self._redactor.feed(clean(raw.decode("utf-8", "replace"))))

    def _take_tail(self, text: str) -> None:
        self._tail.append(text[-self._limit :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._limit:
            self._tail_size -= len(self._tail.popleft())

    def _open_spool(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            self._spool = os.fdopen(descriptor, "wb")
        except OSError as error:
            self._note(error)

    def _write_spool(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        self._spooled += len(data)
        if self._spool is None or self._problem:
            return
        try:
            self._spool.write(data)
        except OSError as error:
            self._note(error)

    def _close_spool(self) -> None:
        try:
            if self._spool is not None:
                self._spool.close()
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        self._problem = f"the full output could not be kept: {error.strerror or error}"


INTERVAL = 15.0
"""Seconds between two notices of one process."""

STRIKES = 3
"""Intervals with suppressed matches after which only one notice at the end is given."""

_LINE = 500
_SHOWN = 300
_REPEATS = 3
_PATTERN = 200
_PLAIN = lazy_pattern(r"\\.|\[(?:\\.|[^\]\\])*\]|(?<=\()\?(?:[:=!]|<[=!]|P<\w+>|[a-zA-Z-]+[:)])", re.DOTALL)
_INNERMOST = lazy_pattern(r"\(([^()]*)\)([*+?{]?)")
_UNBOUNDED = lazy_pattern(r"[*+]|\{\d*,\}")
_REPEATED = "\uffff"


class OutputWatch:
    """A matcher of lines against patterns; `feed` returns at most one notice per interval."""

    def __init__(
        self,
        patterns: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        *,
        tells_end: bool = False,
    ) -> None:
        self.tells_end = tells_end
        """Whether the end of the process is reported, too."""
        self._patterns = [_compile(pattern) for pattern in patterns if pattern]
        self._clock = clock
        self._next = float("-inf")
        self._suppressed = 0
        self._strikes = 0
        self._struck = False
        self.gave_up = False

    def feed(self, text: str) -> str:
        """Return the notice for whole lines of `text`, or empty."""
        if self.gave_up or not self._patterns:
            return ""
        hits = [line for line in text.splitlines() if any(one.search(line[:_LINE]) for one in self._patterns)]
        if not hits:
            return ""
        now = self._clock()
        if now < self._next:
            return self._suppress(len(hits))
        more = self._suppressed + len(hits) - 1
        if not self._struck:
            self._strikes = 0
        self._next, self._suppressed, self._struck = now + INTERVAL, 0, False
        return hits[0][:_SHOWN] + (f" (and {more} more matching lines)" if more else "")

    def _suppress(self, count: int) -> str:
        self._suppressed += count
        if self._struck:
            return ""
        self._struck = True
        self._strikes += 1
        if self._strikes < STRIKES:
            return ""
        self.gave_up = True
        return "its output matches too often; from now on there is one notice when it ends"


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile `pattern` as a regular expression, or literally if it is not one.

    Matching happens on a thread of Hermes and cannot be interrupted, so `ToolError` is raised for patterns
    that may run without end.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return re.compile(re.escape(pattern))
    if _may_take_for_ever(pattern):
        raise ToolError(
            f"The watch pattern {pattern!r} repeats too much to be safe; use plain text or a simpler one."
        )
    return compiled


def _may_take_for_ever(pattern: str) -> bool:
    """Return whether matching could take exponential time.

    That is assumed for too many repeats, or for a repeated group that contains a choice.
    """
    text = _PLAIN.sub("x", pattern)
    if len(pattern) > _PATTERN or len(_UNBOUNDED.findall(text)) > _REPEATS:
        return True
    while (group := _INNERMOST.search(text)) is not None:
        has_choice = any(sign in group[1] for sign in f"*+?{{|{_REPEATED}")
        if has_choice and group[2] in ("*", "+", "{"):
            return True
        text = text[: group.start()] + (_REPEATED if has_choice else "x") + group[2] + text[group.end() :]
    return False


TEXT_LIMIT = 200_000
"""The number of characters that are kept."""


class RollingText:
    """Lines of output, of which the oldest are dropped when there are too many. Not thread-safe."""

    def __init__(self, limit: int = TEXT_LIMIT) -> None:
        self._limit = limit
        self._lines: deque[str] = deque()
        self._size = 0
        self._dropped_lines = 0
        self._total = 0

    @property
    def total(self) -> int:
        """The number of characters ever added."""
        return self._total

    @property
    def total_lines(self) -> int:
        """The number of lines ever added, including the unfinished last one."""
        return self._dropped_lines + len(self._lines)

    def append(self, text: str) -> None:
        """Add text; lines end with a line feed, the last one may be unfinished."""
        for line in _lines(text):
            self._total += len(line)
            if self._lines and not self._lines[-1].endswith("\n"):
                self._size -= len(self._lines[-1])
                line = (self._lines.pop() + line)[-self._limit :]
            self._lines.append(line[-self._limit :])
            self._size += len(self._lines[-1])
            while self._size > self._limit and len(self._lines) > 1:
                self._size -= len(self._lines.popleft())
                self._dropped_lines += 1

    def since(self, position: int) -> tuple[str, int]:
        """Return the text after the first `position` characters, and how many characters of it are lost."""
        wanted = self._total - position
        pieces: list[str] = []
        for line in reversed(self._lines):
            if wanted <= 0:
                break
            pieces.append(line[-wanted:])
            wanted -= len(pieces[-1])
        return "".join(reversed(pieces)), max(wanted, 0)

    def lines(self, offset: int, limit: int) -> tuple[str, int]:
        """Return up to `limit` lines from line `offset` on (0-based), and the offset of the first one.

        Dropped lines are skipped.
        """
        first = max(offset, self._dropped_lines)
        start = first - self._dropped_lines
        chosen = [line for index, line in enumerate(self._lines) if start <= index < start + limit]
        return "".join(chosen), first


def _lines(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        yield text[at:end]
        at = end


RAW_LIMIT = 262_144
"""Bytes kept and replayed, up to twice as many; the emulator handles about a megabyte a second."""

_HISTORY = 5_000


class ScreenRecording:
    """The newest bytes sent to a terminal. `feed` runs on the reader's thread."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_whole = True
        """Whether nothing was dropped so far."""

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > 2 * RAW_LIMIT:
            del self._data[:-RAW_LIMIT]
            self.is_whole = False

    def data(self) -> bytes:
        return bytes(self._data)


def render(data: bytes, *, history: bool) -> str:
    """Return the screen after `data`, with scrolled-off lines above if `history`.

    Takes some tenths of a second for a full recording: use a thread.
    """
    import pyte

    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=_HISTORY if history else 1, ratio=0.5)
    stream = pyte.ByteStream(screen)
    try:
        stream.feed(data)
    except Exception:
        # The emulator gives up on some sequences that programs do send; the plain text is still worth having.
        return clean(data.decode("utf-8", "replace"))
    lines = list(screen.display)
    if history:
        lines = [_row(row, COLUMNS) for row in screen.history.top] + lines
    return clean("\n".join(line.rstrip() for line in lines)).strip("\n")


def _row(row: Mapping[int, Any], width: int) -> str:
    return "".join(row[column].data for column in range(width))
