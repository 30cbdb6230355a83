"""Reading the body of one answer as deltas: events, plain JSON, or something else."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from time import perf_counter
from typing import Any

from agent.errors import ModelError
from agent.model.protocol import Delta, ReasoningDelta, ReplyEnd, TextDelta
from agent.model.transport.failures import Failures, read_complaint
from agent.model.wire_format import EventReader

MAX_EVENT = 16 * 1024 * 1024
"""The maximum number of bytes in one event; with more, the stream counts as broken."""

_BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """A decoder from the bytes of one event stream to the `data` of its events. Other fields are skipped."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._after_cr = False
        self._first_line = True

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events completed by `chunk`. Raises `ModelError` if one exceeds the size limit."""
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
        """Return the data of a last event that lacks its closing blank line; None if there is none.

        By the standard such an event is dropped, but some servers end their stream with one.
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


MAX_ANSWER = 64 * 1024 * 1024
"""The maximum number of bytes in a whole answer."""

LARGE_JSON = 256 * 1024
"""The number of characters of JSON above which parsing is moved off the event loop."""

GRACE = 5.0
"""Seconds to wait for usage and the end mark after the model has given the reason for its end."""

PAUSE = 0.008
"""Seconds of a pause before the next read if an answer arrives in small pieces: far less than between two
screen updates.

Pieces that arrive meanwhile are read together, because waking up for a token costs more than reading it.
"""
DROP = 4096
"""The number of bytes below which a piece is small."""
WAITED = 0.0003
"""The shortest time in seconds of a read that waited for the network."""
BUSY = 0.002
"""The shortest time in seconds between two pauses."""

_DONE = "[DONE]"


class AnswerReader:
    """Reads the body of a successful response; `reader` interprets its events.

    `content_type` only helps to describe a body that is not an answer.
    """

    def __init__(
        self, body: AsyncGenerator[bytes, None], content_type: str, failures: Failures, reader: EventReader
    ) -> None:
        self._body = body
        self._is_event_stream = "event-stream" in content_type
        self._failures = failures
        self._events = SSEDecoder()
        self._reader = reader
        self._waiting: deque[str] = deque()
        self._size = 0
        self._kind = ""
        self._head = b""
        self._document: list[bytes] = []
        self._saw_event = False
        self._body_over = False
        self._drips = False
        """True if the last piece was small and had to be waited for."""
        self._paused = perf_counter()
        self.over = False
        """True if the answer is complete."""
        self.model = ""
        """The model that answers, once reported by the server."""

    async def next(self) -> list[Delta] | None:
        """Return the next deltas, possibly none; None after the list that ends with `ReplyEnd`. Raises
        `ModelError`.
        """
        if self.over:
            return None
        if not self._waiting and not self._body_over:
            await self._take(await self._read())
        if self._waiting:
            return await self._read_event(self._waiting.popleft())
        return self._finish() if self._body_over else []

    async def drain(self, patience: float) -> None:
        """Read the rest of a complete answer for at most `patience` seconds, to reuse its connection."""
        try:
            async with asyncio.timeout(patience):
                async for _ in self._body:
                    pass
        except TimeoutError:
            pass
        except Exception:  # noqa: BLE001, RUF100 - the answer is complete; only the connection is lost
            pass

    async def _read(self) -> bytes | None:
        """Return the next bytes; None at the end of the body. Raises `ModelError`."""
        if self._reader.finish:
            return await self._read_tail()
        began = perf_counter()
        if self._drips and began - self._paused > BUSY:
            await asyncio.sleep(PAUSE)
            self._paused = began = perf_counter()
        try:
            data = await anext(self._body, None)
        except Exception as error:
            raise self._failures.transport(error) from None
        self._drips = data is not None and len(data) < DROP and perf_counter() - began > WAITED
        return data

    async def _read_tail(self) -> bytes | None:
        """Return the next bytes after a complete answer, waiting at most `GRACE` seconds.

        Returns None at the end, after that time, and after an error.
        """
        try:
            async with asyncio.timeout(GRACE):
                return await anext(self._body, None)
        except Exception:  # noqa: BLE001, RUF100 - the answer is complete; only the connection is lost
            return None

    async def _take(self, data: bytes | None) -> None:
        if data is None:
            self._body_over = True
            await self._take_rest()
            return
        self._size += len(data)
        if self._size > MAX_ANSWER:
            raise self._failures.bad_reply(f"an answer of more than {MAX_ANSWER:,} bytes")
        if not self._kind:
            data = self._head = self._head + data
            self._kind = _kind(data)
            if not self._kind:
                return
        if self._kind == "page":
            page = read_complaint(data).page or ""
            raise self._failures.bad_reply("a web page instead of an answer", page)
        if self._kind == "document":
            self._document.append(data)
            if self._size > MAX_EVENT:
                raise self._failures.bad_reply(f"a single object of more than {MAX_EVENT:,} bytes")
        else:
            self._waiting.extend(self._events.feed(data))

    async def _take_rest(self) -> None:
        """Handle data that is known to be complete only because the body has ended."""
        if self._kind == "document":
            self._waiting.append(b"".join(self._document).decode("utf-8-sig", "replace"))
            self._document.clear()
            return
        rest = self._events.rest()
        if rest is not None and (rest.strip() == _DONE or await self._parse(rest) is not None):
            self._waiting.append(rest)

    async def _read_event(self, text: str) -> list[Delta]:
        self._saw_event = True
        stripped = text.strip()
        if stripped == _DONE:
            return self._end()
        if not stripped:
            return []
        data = await self._parse(text)
        if self._kind == "document" and isinstance(data, list):
            data = next((item for item in data if isinstance(item, dict)), data)
        if data is None and stripped == "null":
            return []
        if not isinstance(data, dict):
            raise self._failures.bad_reply("something that is not a JSON object", stripped[:200])
        if (complaint := self._reader.complaint(data)) is not None:
            raise await asyncio.to_thread(self._failures.in_stream, complaint)
        if self._kind == "document" and not self._reader.is_reply(data):
            raise self._failures.bad_reply("an object that is not a reply", stripped[:200])
        self.model = self.model or _model_in(data)
        deltas = self._reader.read(data)
        if self._reader.failed:
            raise self._failures.cut_error(self._reader.failed)
        if self._kind == "document" or self._reader.over:
            deltas += self._end()
        return deltas

    async def _parse(self, text: str) -> Any:
        """Return `text` as data; None when it is not JSON."""
        try:
            return await asyncio.to_thread(json.loads, text) if len(text) > LARGE_JSON else json.loads(text)
        except (ValueError, RecursionError):
            return None

    def _finish(self) -> list[Delta]:
        """Return the last deltas, after the body has ended. Raises `ModelError` if it is incomplete."""
        if self._reader.finish:
            return self._end()
        if not self._saw_event and self._head.strip() and not self._is_event_stream:
            found = self._head[:200].decode("utf-8", "replace")
            raise self._failures.bad_reply("something that is not an answer", found)
        raise self._failures.cut_error()

    def _end(self) -> list[Delta]:
        self.over = True
        self._waiting.clear()
        return [*self._reader.flush(), ReplyEnd(self._reader.finish or "unknown")]


def _model_in(event: dict[str, Any]) -> str:
    """Return the name of the model in an event of any wire format; empty if there is none."""
    for place in (event, event.get("message"), event.get("response")):
        model = place.get("model") if isinstance(place, dict) else None
        if isinstance(model, str) and model:
            return model
    return ""


def _kind(head: bytes) -> str:
    """Return the kind of a body by its first character: `events`, `document`, `page`, or empty if unknown.

    The content type is not enough: servers label plain JSON as an event stream, and vice versa.
    """
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start or b"\xef\xbb\xbf".startswith(start):
        return ""
    if start[:1] in (b"{", b"["):
        return "document"
    return "page" if start[:1] == b"<" else "events"


_LOST: dict[object, Delta] = {
    "text": TextDelta("\ufffd"),
    **dict.fromkeys(("reasoning", "thinking"), ReasoningDelta("\ufffd")),
}


class HalfCharacters:
    """Joins halves of UTF-16 surrogate pairs that arrive in two pieces of a text.

    Python accepts lone surrogates in JSON escapes, but no encoder accepts them later. Only pieces of the same
    channel are joined.
    """

    def __init__(self) -> None:
        self._halves: dict[object, str] = {}

    def whole(self, text: str, channel: object) -> str:
        """Return `text` without lone surrogates. A first half at its end is kept; others become U+FFFD."""
        if text.isascii() and not self._halves:
            return text
        text = self._halves.pop(channel, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[channel] = text[-1]
            text = text[:-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def flush(self) -> list[Delta]:
        """Return U+FFFD as a delta for each text and reasoning that ended with half a character."""
        channels, self._halves = list(self._halves), {}
        return [_LOST[each] for each in channels if each in _LOST]
