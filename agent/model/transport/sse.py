"""Server-sent events: from bytes, divided anywhere, to the data of each event.

Follows the parsing rules of the WHATWG HTML standard, section "Server-sent
events": three kinds of line ends, comments, data over several lines, a byte
order mark, and U+FFFD for bytes that are no UTF-8.
"""

from __future__ import annotations

from agent.errors import ModelError

MAX_EVENT = 16 * 1024 * 1024
"""Bytes one event may hold before the stream counts as broken."""

_BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Takes the bytes of one stream and gives the `data` of its events. Other fields are skipped."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._after_cr = False
        self._first_line = True

    def feed(self, chunk: bytes) -> list[str]:
        """The events completed by `chunk`. Raises `ModelError` when one grows past the limit."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        lines = chunk.splitlines()
        rest = b"" if chunk.endswith((b"\r", b"\n")) else lines.pop()
        if lines and self._line:
            lines[0] = self._take_line() + lines[0]
        events: list[str] = []
        for line in lines:
            self._read(line, events)
        if rest:
            self._line.append(rest)
            self._hold(len(rest))
        return events

    def rest(self) -> str | None:
        """The data of an event whose closing blank line never came.

        The standard drops it; some servers end their last event that way.
        """
        lost: list[str] = []
        if self._line:
            self._read(self._take_line(), lost)
        self._read(b"", lost)
        return lost[0] if lost else None

    def _take_line(self) -> bytes:
        line = b"".join(self._line)
        self._line.clear()
        self._held -= len(line)
        return line

    def _read(self, line: bytes, events: list[str]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                self._held -= sum(map(len, self._data)) + len(self._data)
                self._data.clear()
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._hold(len(value) + 1)

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._limit:
            raise ModelError(
                "bad_reply",
                f"The model's answer holds a single event of more than {self._limit:,} bytes; "
                "try again or choose another model.",
            )
