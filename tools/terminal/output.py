"""Output of a command: cleaned and masked as it comes, bounded in memory, kept in full on disk."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.text.redact import Redactor, redact
from tools.text.safe_text import Cleaner, clean, left_out

LIMIT = 50_000
"""Characters of output that go into the conversation."""

HEAD = 0.4
"""Share of the limit that the beginning gets; the end matters more."""

SPOOL_BYTES = 50_000_000
"""Size at which the file with the full output ends."""

_RAW_TAIL = 4 * LIMIT
_LIVE_CHARACTERS, _LIVE_LINES = 2_000, 20
"""How much of the newest output is shown while a command runs."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a finished command. `spool` is the file that holds all of it, if it was cut."""

    text: str
    total: int
    spool: Path | None = None
    spool_problem: str = ""
    """Why there is no complete file, or empty."""


class OutputCollector:
    """Takes the bytes of one command. `feed` runs on the reader's thread, everything else anywhere."""

    def __init__(
        self,
        spool: Path,
        secrets: Mapping[str, str],
        limit: int = LIMIT,
        screen: Callable[[str], None] | None = None,
    ) -> None:
        """`screen` is shown each piece as it is taken."""
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
        """The next bytes the command printed."""
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
        """The newest lines, the unfinished one included."""
        with self._lock:
            recent = "".join([*self._pieces[-50:], *list(self._tail)[-50:]])[-_LIVE_CHARACTERS:]
            if self._raw is not None:
                recent += clean(self._raw[-_LIVE_CHARACTERS:].decode("utf-8", "replace"))
            else:
                recent += self._cleaner.pending()
        lines = recent[-_LIVE_CHARACTERS:].splitlines(keepends=True)[-_LIVE_LINES:]
        return redact("".join(lines), self._secrets)

    def finish(self) -> Output:
        """Everything is in: the text for the conversation, and the file with the rest."""
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
            # Begin with a whole line, and leave no gap between what was taken before and this.
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
