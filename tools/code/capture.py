"""What a script prints: its beginning and its end in memory, the rest counted."""

from __future__ import annotations

from tools.text import clean, printable

HEAD = 0.4
"""Share of the limit that the beginning gets; the end matters more."""

_NEWEST_BYTES, _NEWEST_LINES = 4_000, 20
_SEAM = 200
"""Bytes at the start of the end that may be given up to begin with a whole line."""


class Capture:
    """Takes bytes without end and keeps `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head_room = int(limit * HEAD)
        self._head = bytearray()
        self._tail = bytearray()
        self._shown = (0, "")
        self.total = 0
        """Bytes there ever were."""

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._limit - len(self._head)
        if not self._tail and room > 0:
            # As long as everything fits nothing is split.
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            # Cut rarely: each cut moves what stays.
            if len(self._tail) > 4 * self._limit:
                del self._tail[: -self._limit]

    @property
    def is_cut(self) -> bool:
        return self.total > self._limit

    def newest(self) -> str:
        """The newest lines, cleaned."""
        if self.total == self._shown[0]:
            return self._shown[1]
        end = self._tail[-_NEWEST_BYTES:]
        if len(end) < _NEWEST_BYTES:
            end = self._head[-(_NEWEST_BYTES - len(end)) :] + end
        lines = printable(end.decode("utf-8", "ignore")).splitlines()
        self._shown = self.total, "\n".join(lines[-_NEWEST_LINES:])
        return self._shown[1]

    def text(self) -> str:
        """The output, cleaned; above the limit, its beginning, a mark, and its end."""
        if not self.is_cut:
            return clean(self._head.decode("utf-8", "replace"))
        whole = bytes(self._head + self._tail)
        size = f"{self._limit // 1000}KB"
        mark = f"\n[output truncated at {size}: the middle of {self.total:,} bytes is left out]\n"
        room = max(self._limit - len(mark), 0)
        first = min(self._head_room, room)
        end = whole[len(whole) - (room - first) :]
        seam = end.find(b"\n", 0, _SEAM)
        end = end[seam + 1 :]
        return clean(whole[:first].decode("utf-8", "ignore")) + mark + clean(end.decode("utf-8", "ignore"))
