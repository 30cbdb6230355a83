"""Filters rows by what a person typed, a slice at a time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator

from widgets.rows.row_view import RowView

SLICE = 0.003
"""Seconds of looking before other work gets its turn."""
STRIDE = 16
"""Rows between two looks at the clock."""


class RowFilter:
    """Words that must all occur in the text of a row, in any order and case."""

    def __init__(self, text_of: Callable[[int], str]) -> None:
        self._text_of = text_of
        self._needle = ""
        self._words: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._last = ""
        self.typing = False
        """Whether keys go to the needle."""

    @property
    def needle(self) -> str:
        """What the person typed; empty when everything is shown."""
        return self._needle

    @needle.setter
    def needle(self, needle: str) -> None:
        self._needle = needle
        self._words = needle.casefold().split()
        self._last = needle if self._words else self._last
        words = "|".join(re.escape(word) for word in needle.split())
        self._pattern = re.compile(words, re.IGNORECASE) if words else None

    def accepts(self, index: int) -> bool:
        """Whether the row at `index` is shown."""
        return not self._words or _has_all(self._text_of(index), self._words)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where in a drawn line the words are."""
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                yield match.span()

    def scan_slice(self, view: RowView) -> bool:
        """Judge the next rows of `view`. True if there are more."""
        index = view.scanned or 0
        end = time.monotonic() + SLICE
        found: list[int] = []
        while index < view.count:
            stop = min(index + STRIDE, view.count)
            found += [row for row in range(index, stop) if self.accepts(row)]
            index = stop
            if time.monotonic() >= end:
                break
        view.found(found, index)
        return index < view.count

    async def find(self, view: RowView, direction: int) -> int | None:
        """The next row from the cursor that matches the last needle, around the ends; None if none does."""
        words = self._last.casefold().split()
        start = view.cursor_row
        if start is None or not words:
            return None
        row, end = start, time.monotonic() + SLICE
        for step in range(1, view.count + 1):
            if view.count == 0:
                return None
            row = (start + direction * step) % view.count
            if _has_all(self._text_of(row), words):
                return row
            if step % STRIDE == 0 and time.monotonic() >= end:
                await asyncio.sleep(0)
                end = time.monotonic() + SLICE
        return None


def _has_all(text: str, words: list[str]) -> bool:
    text = text.casefold()
    return all(word in text for word in words)
