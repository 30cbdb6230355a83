"""The event log of one session, in a file from which clients ("heads") read missed events.

A line is one event as JSON. It is written before any head receives it, so every delivered event survives a
kill and is delivered again with the same number. Each head reads at its own speed; a slow one delays no
other. Blocking parts are small writes, and reads of the page cache.
"""

from __future__ import annotations

import asyncio
import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import StoreError

LARGE = 16_000_000
"""Bytes of a file from which on it is made smaller between turns."""
KEPT = 8_000_000
"""Bytes that are kept of it at most."""
PIECES = frozenset({"text", "reasoning", "call_drafted", "tool_progress", "agent_progress", "queue_changed"})
"""Events that a later one replaces; in a large file those of the past are left out."""


class EventLog:
    """The log file of one session, with the position of each event in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._numbers = array("Q")
        self._starts = array("Q")
        self._size = 0
        self._news: asyncio.Future[None] | None = None
        self.closed = False
        self.gone = 0
        """The last number that is no longer there; 0 if nothing was left out at the beginning."""

    @classmethod
    async def open(cls, path: Path) -> EventLog:
        """Open the file and remove an incomplete last line. Raises `StoreError`."""
        log = cls(path)
        await asyncio.to_thread(log._open)
        return log

    @property
    def first(self) -> int:
        """The number of the first stored event; 0 if there is none."""
        return self._numbers[0] if self._numbers else 0

    @property
    def last(self) -> int:
        """The number of the last event; 0 if there is none."""
        return self._numbers[-1] if self._numbers else 0

    def append(self, event: Mapping[str, Any]) -> None:
        """Write an event, then wake the heads. Raises `StoreError`."""
        if self.closed:
            return
        line = json.dumps(event, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            written = os.write(self._file, line)
            if written != len(line):
                os.ftruncate(self._file, self._size)
                raise OSError(28, "No space left on device")
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}.") from error
        self._numbers.append(int(event["seq"]))
        self._starts.append(self._size)
        self._size += len(line)
        self._wake()

    def read(self, after: int, most: int = 256_000, count: int = 2_000) -> list[tuple[int, str]]:
        """Return the events after a number, oldest first, as pairs of number and line.

        At most `count` events and about `most` bytes are returned.
        """
        at = bisect_right(self._numbers, after)
        end = min(at + count, len(self._numbers))
        if at >= end:
            return []
        start = self._starts[at]
        if (size := self._start(end) - start) > most:
            end = max(at + 1, bisect_right(self._starts, start + most) - 1)
            size = self._start(end) - start
        lines = os.pread(self._file, size, start).decode("ascii").split("\n")[:-1]
        return list(zip(self._numbers[at:end], lines, strict=True))

    async def news(self, after: int) -> None:
        """Wait until there is an event after a number, or the log is closed."""
        while self.last <= after and not self.closed:
            if self._news is None or self._news.done():
                self._news = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._news)

    async def make_smaller(self) -> None:
        """Drop streamed pieces of finished turns, and the oldest events, if the file is large."""
        if self._size <= LARGE:
            return
        until, old = len(self._numbers), self._file
        kept = await asyncio.to_thread(self._write_smaller, until)
        if self.closed:
            return
        # Events added during the rewrite are only in the old file. No await from here on.
        size = self._new_path.stat().st_size
        rest = os.pread(old, self._size - self._start(until), self._start(until))
        shift = size - self._start(until)
        file = os.open(self._new_path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        os.write(file, rest)
        numbers, starts = kept
        numbers.extend(self._numbers[until:])
        starts.extend(array("Q", (each + shift for each in self._starts[until:])))
        self._new_path.replace(self._path)
        self.gone = max(self.gone, (numbers[0] if numbers else self.last + 1) - 1)
        self._numbers, self._starts, self._file, self._size = numbers, starts, file, size + len(rest)
        os.close(old)

    def close(self) -> None:
        """Stop writing; wake all waiting heads."""
        self.closed = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._wake()

    @property
    def _new_path(self) -> Path:
        return self._path.with_name(f".{self._path.name}.new")

    def _start(self, at: int) -> int:
        return self._starts[at] if at < len(self._starts) else self._size

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _open(self) -> None:
        try:
            private_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            self._file = os.open(self._path, flags, PRIVATE_FILE)
            with os.fdopen(os.dup(self._file), "rb") as file:
                for line in file:
                    number = _number(line)
                    if number <= self.last:
                        break
                    self._numbers.append(number)
                    self._starts.append(self._size)
                    self._size += len(line)
            os.ftruncate(self._file, self._size)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be used: {error.strerror}.") from error

    def _write_smaller(self, until: int) -> tuple[array[int], array[int]]:
        """Write a new file with the events to keep among the first `until`. Runs in a thread.

        Returns two arrays that describe the positions of these events.
        """
        numbers, starts, size = array("Q"), array("Q"), 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        lines: list[tuple[int, bytes]] = []
        recent = max(0, until - 2_000)
        for at in range(until):
            start, end = self._starts[at], self._start(at + 1)
            line = os.pread(self._file, end - start, start)
            if at >= recent or json.loads(line)["type"] not in PIECES:
                lines.append((self._numbers[at], line))
        total = sum(len(line) for _, line in lines)
        first = 0
        while first < len(lines) and total > KEPT:
            total -= len(lines[first][1])
            first += 1
        with os.fdopen(os.open(self._new_path, flags, PRIVATE_FILE), "wb") as file:
            for number, line in lines[first:]:
                numbers.append(number)
                starts.append(size)
                size += file.write(line)
        return numbers, starts


def _number(line: bytes) -> int:
    """Return the number of the event on a line; 0 for an incomplete line."""
    if not line.endswith(b"\n"):
        return 0
    try:
        number = json.loads(line)["seq"]
    except (ValueError, KeyError, TypeError):
        return 0
    return number if isinstance(number, int) else 0
