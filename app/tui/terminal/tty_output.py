"""Output to the terminal that never blocks, and detection of a lost terminal.

A terminal can go away (its window is closed, its server killed) or stop reading (a network that hangs).
Neither may block the program: running work continues, and the program can still be ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from threading import RLock
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.driver import Driver
from textual.filter import LineFilter

from app.tui.terminal.terminals import known_terminal
from app.tui.terminal.tty_input import Keyboard, WakingEvent, read_terminal
from themes.states import TO_ASCII, draws_ascii_only
from tools.text.safe_text import steers, without_steering

log = logging.getLogger(__name__)

LIMIT = 1 << 17
"""The number of bytes that may wait for a terminal; frames beyond that are dropped, and redrawn later."""
SLOW = 0.25
"""Seconds after which frames are dropped if the terminal has not taken all bytes. Otherwise typed text would
appear only after all waiting bytes: a minute later on a line of two kilobytes per second.
"""
WORDS_LIMIT = 1 << 20
"""The number of bytes that may wait in all, including output that is not a frame."""
PATIENCE = 1.0
"""Seconds without progress after which the application no longer waits for the terminal at its end."""
LOOK = 5.0
"""Seconds between two checks for a lost terminal; reading its keys usually notices sooner."""
PIECE = 1 << 16
CAREFUL_PIECE = 256
"""The largest write in bytes that any terminal with free space accepts without blocking."""

_SYNCHRONIZED = b"\x1b[?2026"
_GONE = select.POLLHUP | select.POLLERR


class TtyOutput:
    """A writer of bytes to the terminal behind a descriptor, for any thread; `write` never raises or waits.

    `lost` is called once, on the event loop, when the terminal has gone. `caught_up` is called whenever a
    terminal that stopped reading has taken all waiting bytes, but misses frames that were dropped.
    """

    def __init__(self, number: int, lost: Callable[[], None], caught_up: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost, self._caught_up = lost, caught_up
        self._lock = RLock()
        self._waiting = bytearray()
        self._listens = False
        self._behind = False
        self._since = 0.0
        self._needed = False
        self.gone = False
        """True once the terminal has gone; output is discarded then."""
        self._number, self._piece = _open_output(number)
        self._loop.call_soon(self._look)

    @property
    def backlog(self) -> int:
        """The number of bytes not yet written to the terminal."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        """Send `data` now, or as soon as the terminal reads; frames may be dropped."""
        with self._lock:
            self._send()
            if not self._needed and self._is_dropped(data):
                return
            if not self.gone:
                if not self._waiting:
                    self._since = time.monotonic()
                self._waiting += data
                self._send()

    def hold(self) -> None:
        """Drop nothing until the next `settle`, as the following output sets up the terminal."""
        self._needed = True

    def settle(self) -> None:
        """Wait until everything is written, or the terminal has not read for `PATIENCE` seconds."""
        with self._lock:
            while self._waiting and self._room(PATIENCE):
                self._send()
            self._needed = False

    def mark_lost(self, cause: str) -> None:
        """Drop the waiting bytes and call `lost`, because the terminal has gone."""
        with self._lock:
            if self.gone:
                return
            self.gone = True
            self._waiting.clear()
        log.warning("the terminal has gone (%s); Hermes ends, the session stays", cause)
        _redirect_to_null()
        self._loop.call_soon_threadsafe(self._lost)

    def _is_dropped(self, data: bytes) -> bool:
        """Return whether to drop `data`, because it is a frame and the terminal is too far behind."""
        if is_control(data):
            return len(self._waiting) > WORDS_LIMIT
        slow = bool(self._waiting) and time.monotonic() - self._since > SLOW
        self._behind = self._behind or slow or len(self._waiting) > LIMIT
        return self._behind

    def _send(self) -> None:
        try:
            while self._waiting and self._room(0):
                del self._waiting[: os.write(self._number, self._waiting[: self._piece])]
        except BlockingIOError:
            pass  # another writer used the space
        except OSError as error:
            self.mark_lost(error.strerror or type(error).__name__)
        if self._waiting and not self._listens:
            self._listens = True
            self._loop.call_soon_threadsafe(self._listen)

    def _room(self, seconds: float) -> bool:
        """Return whether the terminal accepts output, waiting up to `seconds`; detect its loss."""
        # A new object for each call: a signal handler may call this during another call.
        poll = select.poll()
        poll.register(self._number, select.POLLOUT)
        found = poll.poll(seconds * 1000)
        if found and found[0][1] & _GONE:
            self.mark_lost("hung up")
        return bool(found) and not self.gone

    def _listen(self) -> None:
        self._loop.add_writer(self._number, self._go_on)

    def _go_on(self) -> None:
        with self._lock:
            self._send()
            if self._waiting:
                return
            self._loop.remove_writer(self._number)
            self._listens = False
            behind, self._behind = self._behind, False
        if behind and not self.gone:
            self._caught_up()

    def _look(self) -> None:
        """Check every `LOOK` seconds whether the terminal has gone, as a signal may not report it."""
        with self._lock:
            self._room(0)
        if not self.gone:
            self._loop.call_later(LOOK, self._look)


def is_control(data: bytes) -> bool:
    """Return whether bytes set or query something in the terminal instead of drawing a frame. Pure.

    Examples are copied text, a title, a notification, a stored image or a mode. No later frame would repeat
    them.
    """
    if data.startswith((b"\x1b]", b"\x1b_")):
        return True
    mode = data.startswith((b"\x1b[?", b"\x1b[>", b"\x1b[<")) and data.find(b"\x1b", 1) < 0
    return mode and not data.startswith(_SYNCHRONIZED)


def _open_output(number: int) -> tuple[int, int]:
    """Return a non-blocking descriptor of the terminal behind `number`, and the largest size of a write to
    it.

    The terminal is opened again, because programs that inherit a descriptor share its non-blocking flag.
    """
    try:
        return os.open(os.ttyname(number), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK), PIECE
    except OSError:  # the terminal has gone, or is outside this container
        return os.dup(number), CAREFUL_PIECE


def drop_unread_output() -> None:
    """Discard further output if the terminal does not read for a second, so that writing does not block."""
    if not select.select([], [1], [], PATIENCE)[1]:
        log.warning("the terminal reads nothing any more; it could not be put back as it was")
        _redirect_to_null()


def _redirect_to_null() -> None:
    """Redirect reads from the lost terminal to an empty pipe and writes to the null device, permanently.

    After a hang-up, reading would otherwise return end of file again and again, and writing would fail.
    """
    silent, _speaks = os.pipe()
    os.set_blocking(silent, False)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for opened, number in ((silent, 0), (nowhere, 1), (nowhere, 2)):
        os.dup2(opened, number, inheritable=True)


def driver_with_output(
    driver: type[Driver],
    lost: Callable[[], None],
    caught_up: Callable[[], None],
    answered: Callable[[str], None] = lambda _answer: None,
    drawn: Callable[[str], str] = str,
) -> type[Driver]:
    """Return a subclass of `driver` that writes through a `TtyOutput`, so that it never waits for the
    terminal.

    `lost` is called when the terminal has gone, `caught_up` when delayed output has been written; `answered`
    receives, in the thread that reads, the terminal's answers to queries from Hermes; `drawn` transforms the
    output before it is written. A driver without an input thread has no terminal and is returned unchanged.
    """
    if not hasattr(driver, "run_input_thread"):
        return driver

    class LastingDriver(driver):
        first_input = b""
        """Bytes that were read from the terminal before the driver began, to be decoded first."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.exit_event = WakingEvent()
            # Textual's output file, with the encoding Textual would use.
            stream = sys.__stderr__
            assert stream is not None, "a full screen has a terminal"
            self._encoding = stream.encoding
            self._ascii = draws_ascii_only(os.environ)
            self._line = TtyOutput(stream.fileno(), self.report_lost_terminal, caught_up)

        @property
        def backlog(self) -> int:
            """The number of bytes not yet written to the terminal."""
            return self._line.backlog

        def write(self, data: str) -> None:
            shown = drawn(data)
            if self._ascii:
                shown = shown.translate(TO_ASCII)
            self._line.write(shown.encode(self._encoding, "replace"))

        def report_lost_terminal(self) -> None:
            """Report that the terminal has gone. Called on the event loop."""
            lost()

        def take_answer(self, answer: str) -> None:
            """Handle an answer from the terminal, in the thread that reads."""
            answered(answer)

        def run_input_thread(self) -> None:
            self.keyboard = Keyboard(lambda: known_terminal(os.environ).doubles_escape == "yes")
            first, self.first_input = self.first_input, b""
            try:
                read_terminal(
                    self.fileno,  # type: ignore[attr-defined]
                    self.exit_event,  # type: ignore[attr-defined]
                    self.process_message,
                    lambda: self._app.message_queue_size,
                    self.take_answer,
                    first,
                    self.keyboard,
                )
            except OSError as error:
                self._line.mark_lost(error.strerror or type(error).__name__)

        def stop_application_mode(self) -> None:
            self._line.hold()
            super().stop_application_mode()

        def close(self) -> None:
            self._line.settle()
            super().close()

    return LastingDriver


class ControlFilter(LineFilter):
    """A filter that removes terminal control characters from everything that is drawn.

    Text is already cleaned when it comes in; this catches text that was missed. The filter does not change
    the width of a row: control characters count as zero cells, so they are not replaced.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line without control characters; the same list if there are none."""
        if all(segment.control is None and is_plain(segment.text) for segment in segments):
            return segments
        return [
            segment if is_plain(segment.text) else Segment(without_controls(segment.text), segment.style)
            for segment in segments
            if segment.control is None
        ]


def without_controls(text: str) -> str:
    """Return `text` without terminal control characters, padded or cut to the width counted for it."""
    width, plain = cell_len(text), without_steering(text)
    fitted = set_cell_size(plain, width)
    if cell_len(fitted) != width:  # a joiner at an end swallows the adjacent blank
        fitted = set_cell_size(plain.replace("\u200d", ""), width)
    return fitted


@lru_cache(maxsize=4096)
def is_plain(text: str) -> bool:
    """Return whether the text has no control characters, direction changes or hidden characters."""
    return not steers(text)


def driver_with_writer(driver: type[Driver], hear: Callable[[Callable[[str], None]], None]) -> type[Driver]:
    """Return a subclass of `driver` that passes its `write` method to `hear` at its start, for output outside
    frames.
    """

    class SpeakingDriver(driver):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            hear(self.write)

    return SpeakingDriver
