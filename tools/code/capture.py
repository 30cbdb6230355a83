"""Captured output of a script: its beginning and its end in memory, the rest counted."""

from __future__ import annotations

from collections.abc import Mapping

from tools.text.redact import redact
from tools.text.safe_text import clean, printable

HEAD = 0.4
"""Share of the limit that the beginning gets; the end matters more."""

_NEWEST_BYTES, _NEWEST_LINES = 4_000, 20
_SEAM = 200
"""Bytes at the start of the end that may be given up to begin with a whole line."""
_EDGE = 4_096
"""Bytes beside a gap that are kept but not shown: half a secret, which nothing masks, would stand there."""


class Capture:
    """Takes bytes without end and keeps the first and the last `limit` of them.

    `secrets` are values to mask by name, beside whatever has the shape of a secret.
    """

    def __init__(self, limit: int, secrets: Mapping[str, str] | None = None) -> None:
        self._limit = limit
        self._secrets = secrets or {}
        self._edge = max([_EDGE, *(len(value.encode()) for value in self._secrets.values())])
        self._head_room = int(limit * HEAD)
        self._head = bytearray()
        self._tail = bytearray()
        self._has_gap = False
        self._shown = (0, "")
        self.total = 0
        """Bytes there ever were."""

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        kept = self._limit + self._edge
        room = kept - len(self._head)
        if not self._tail and room > 0:
            # As long as everything fits nothing is split.
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            # Cut rarely: each cut moves what stays.
            if len(self._tail) > 4 * kept:
                del self._tail[:-kept]
                self._has_gap = True

    @property
    def is_cut(self) -> bool:
        return self.total > self._limit

    def newest(self) -> str:
        """The newest lines, cleaned and masked."""
        if self.total == self._shown[0]:
            return self._shown[1]
        wanted = _NEWEST_BYTES + self._edge
        end = self._tail[-wanted:]
        if len(end) < wanted and not self._has_gap:
            end = self._head[-(wanted - len(end)) :] + end
        is_whole = len(end) == self.total
        text = redact(printable(end.decode("utf-8", "ignore")), self._secrets)
        if not is_whole:
            text = text[self._edge :]
        self._shown = self.total, "\n".join(text[-_NEWEST_BYTES:].splitlines()[-_NEWEST_LINES:])
        return self._shown[1]

    def text(self) -> str:
        """The output, cleaned and masked; above the limit, its beginning, a mark, and its end."""
        if not self._has_gap:
            whole = self._masked(self._head + self._tail)
            if not self.is_cut:
                return whole.decode()
            first = last = whole
        else:
            first = self._masked(self._head)[: -self._edge]
            last = self._masked(self._tail)[self._edge :]
        size = f"{self._limit // 1000}KB"
        mark = f"\n[output truncated at {size}: the middle of {self.total:,} bytes is left out]\n"
        room = max(self._limit - len(mark), 0)
        if first is last and len(first) <= room:
            # Masked, or without what only steers terminals, it fits after all.
            return first.decode()
        head = first[: min(self._head_room, room)]
        end = last[max(len(last) - (room - len(head)), 0) :]
        seam = end.find(b"\n", 0, _SEAM)
        end = end[seam + 1 :]
        return head.decode("utf-8", "ignore") + mark + end.decode("utf-8", "ignore")

    def _masked(self, data: bytes | bytearray) -> bytes:
        """Cleaned first: control characters inside a secret must not hide it."""
        return redact(clean(data.decode("utf-8", "replace")), self._secrets).encode()
