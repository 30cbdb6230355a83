"""The echo of text typed into the first frame, until the application reads the keys.

A thread reads the terminal while the main thread imports. It keeps every byte in order for the application,
which decodes them as if it had read them itself. Printable characters and backspace are also shown in the
prompt of the frame, until the first other key. Like the frame, this module imports next to nothing.
"""

from __future__ import annotations

import _thread
import codecs
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PIECE = 4096
END_WAIT = 1.0
"""Seconds to wait for the thread to end."""


class EarlyEcho:
    """Reads descriptor `source` in a thread; `draw` gets the prompt's rows of text whenever they change."""

    def __init__(self, source: int, width: int, rows: int, draw: Callable[[list[str]], None]) -> None:
        """`width` is the number of cells of a row of text, `rows` the largest number of rows shown."""
        self._source = source
        self._width, self._rows = width, rows
        self._draw = draw
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._is_open = True
        """False once a key was pressed that is not shown."""
        self._read = b""
        self._wake: tuple[int, int] | None = None
        self._ended = _thread.allocate_lock()

    def start(self) -> None:
        """Start reading the terminal. Raises `OSError` or `RuntimeError` if there is no pipe or thread."""
        self._wake = os.pipe()
        self._ended.acquire()
        try:
            _thread.start_new_thread(self._listen, (self._wake[0],))
        except RuntimeError:
            self._ended.release()
            raise

    def stop(self) -> bytes:
        """Stop reading, and return the bytes read since the last call. Repeated calls are harmless."""
        if self._wake is not None:
            (out, into), self._wake = self._wake, None
            os.write(into, b"\0")
            if self._ended.acquire(timeout=END_WAIT):
                os.close(out)
                os.close(into)
        read, self._read = self._read, b""
        return read

    def type_in(self, data: bytes) -> None:
        """Show the effect of these typed bytes through `draw`, until the first key that is not shown."""
        before = self._text
        for character in self._decoder.decode(data) if self._is_open else "":
            if character == "\x7f":
                self._text = self._text[:-1]
                continue
            text = self._text + character
            self._is_open = character.isprintable() and self._fits(text)
            if not self._is_open:
                break
            self._text = text
        if self._text != before:
            self._draw(wrapped(self._text, self._width))

    def _fits(self, text: str) -> bool:
        """Return whether `text` fits into the frame and is sure to be wrapped as in the prompt."""
        if text.isascii():
            return len(wrapped(text, self._width)) <= self._rows
        return 0 <= cells(text) <= self._width

    def _listen(self, wake: int) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(wake, select.POLLIN)
        try:
            while not any(number == wake for number, _event in poll.poll()):
                data = os.read(self._source, PIECE)
                if not data:
                    break
                self._read += data
                self.type_in(data)
        except OSError:
            pass  # the terminal has gone; reading it again will report that
        finally:
            self._ended.release()


def wrapped(text: str, width: int) -> list[str]:
    """Return the rows of ASCII text as the prompt wraps it; other text is one row. Pure."""
    rows: list[str] = []
    while len(text) > width and text.isascii():
        end = width if text[width] == " " else text.rfind(" ", 0, width) + 1 or width
        rows.append(text[:end])
        text = text[end:]
    return [*rows, text]


def cells(text: str) -> int:
    """Return the width of a text in cells; -1 if it may contain combined or zero-width characters. Pure."""
    if text.isascii():
        return len(text)
    import unicodedata

    total = 0
    for character in text:
        kind = unicodedata.category(character)
        if kind[0] in "MC" or kind in ("So", "Sk"):
            return -1
        total += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return total
