"""Markers in the output of the far side: what the scripts report, between what commands print.

A marker is `token kind payload token .`. The token is drawn for each call, so output does not hold it
by accident. A command that looks for it can only misreport its own end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["r", "s", "x", "e", "a", "d"]
"""Ready for the script, shell started, folder missing, shell ended, anchor there, request done."""

_LONGEST = 1 << 20
"""Bytes a payload may have before it counts as output."""


@dataclass(frozen=True, slots=True)
class OutputMarker:
    kind: str
    payload: bytes = b""


class MarkerSplitter:
    """Parts a stream into output and markers. What may be the beginning of a marker is held back."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._end = token + b"."
        self._held = bytearray()
        self._is_inside = False
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[bytes | OutputMarker]:
        """The pieces that are complete now, in order."""
        self._held += data
        while True:
            piece = self._marker() if self._is_inside else self._output()
            if piece is None:
                return
            if piece:
                yield piece

    def rest(self) -> bytes:
        """What was held back, once nothing follows any more."""
        rest = (self._token if self._is_inside else b"") + bytes(self._held)
        self._held.clear()
        self._is_inside = False
        return rest

    def _output(self) -> bytes | None:
        at = self._held.find(self._token)
        if at >= 0:
            piece = bytes(self._held[:at])
            del self._held[: at + len(self._token)]
            self._is_inside, self._searched = True, 0
            return piece
        keep = self._partial()
        piece = bytes(self._held[: len(self._held) - keep])
        del self._held[: len(piece)]
        return piece or None

    def _marker(self) -> OutputMarker | bytes | None:
        at = self._held.find(self._end, self._searched)
        if at < 0:
            if len(self._held) > _LONGEST:
                return self.rest()
            self._searched = max(len(self._held) - len(self._end), 0)
            return None
        payload = bytes(self._held[:at])
        del self._held[: at + len(self._end)]
        self._is_inside = False
        return OutputMarker(payload[:1].decode("ascii", "replace"), payload[1:])

    def _partial(self) -> int:
        """How many of the last bytes may begin a token."""
        for length in range(min(len(self._token) - 1, len(self._held)), 0, -1):
            if self._held.endswith(self._token[:length]):
                return length
        return 0
