"""The newest output of a background process: a bounded window on an endless text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

LIMIT = 200_000
"""Characters that are kept."""


class RollingText:
    """Lines as they come, the oldest dropped when there is too much. Not safe for threads by itself."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lines: deque[str] = deque()
        self._size = 0
        self._dropped_lines = 0
        self._total = 0

    @property
    def total(self) -> int:
        """Characters there ever were."""
        return self._total

    @property
    def total_lines(self) -> int:
        """Lines there ever were, the unfinished last one included."""
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
        """Text after the first `position` characters, and how many of those are dropped already."""
        wanted = self._total - position
        pieces: list[str] = []
        for line in reversed(self._lines):
            if wanted <= 0:
                break
            pieces.append(line[-wanted:])
            wanted -= len(pieces[-1])
        return "".join(reversed(pieces)), max(wanted, 0)

    def lines(self, offset: int, limit: int) -> tuple[str, int]:
        """Up to `limit` lines from line `offset` on (0-based), and the offset of the first one returned.

        Lines that were dropped are skipped.
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
