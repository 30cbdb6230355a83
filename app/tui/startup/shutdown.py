"""Leaving on a signal: an orderly shutdown if possible, a forced one after a while."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import tempfile
from collections.abc import Callable
from threading import Thread, Timer
from types import FrameType

from agent.errors import ExitCode
from app.tui.startup import skeleton

log = logging.getLogger(__name__)

SIGNALS = {
    signal.SIGTERM: 143,
    signal.SIGHUP: 129,
    signal.SIGQUIT: 131,
    signal.SIGINT: int(ExitCode.INTERRUPTED),
}
"""Signals that end the application in an orderly way, with their exit codes."""
HUNG_UP = SIGNALS[signal.SIGHUP]
"""The exit code after the terminal has gone, with or without a signal."""
GRACE = 15.0
"""Seconds that an orderly shutdown may take."""


def on_signals(leave: Callable[[int], None]) -> None:
    """Make signals call `leave` on the running event loop, with the matching exit code.

    The handler is not one of the event loop, so it runs even while the loop is blocked.
    """
    loop = asyncio.get_running_loop()

    def handle_signal(number: int, _frame: FrameType | None) -> None:
        code = SIGNALS[signal.Signals(number)]
        if loop.is_closed():
            os._exit(code)  # only the interpreter's exit is left
        ensure_end(code)
        loop.call_soon_threadsafe(leave, code)

    for number in SIGNALS:
        signal.signal(number, handle_signal)


def ensure_end(code: int, seconds: float = GRACE) -> None:
    """End the program after `seconds` if it still runs. The conversation is already on disk."""
    timer = Timer(seconds, _end, (code,))
    timer.daemon = True
    timer.start()


def _end(code: int) -> None:
    log.error("the application did not end by itself; its threads:\n%s", _threads())
    # On a terminal that reads nothing, this would wait forever.
    last = Thread(target=skeleton.put_back, daemon=True)
    last.start()
    last.join(1.0)
    os._exit(code)


def _threads() -> str:
    """Return the current stack of every thread."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()
