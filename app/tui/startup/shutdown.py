"""Leaving on a signal: in good order if that is possible, and after a while in any case."""

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
"""Signals that end the application in good order, and the exit codes they stand for."""
HUNG_UP = SIGNALS[signal.SIGHUP]
"""The exit code after the terminal has gone, with a signal or without."""
GRACE = 15.0
"""Seconds an orderly end may take."""


def on_signals(leave: Callable[[int], None]) -> None:
    """From now on let signals call `leave` on the running event loop, with the exit code they stand for.

    Not a handler of the loop: this one is heard even while the loop is held up.
    """
    loop = asyncio.get_running_loop()

    def handle_signal(number: int, _frame: FrameType | None) -> None:
        code = SIGNALS[signal.Signals(number)]
        if loop.is_closed():
            os._exit(code)  # all that is left is the end of the interpreter
        ensure_end(code)
        loop.call_soon_threadsafe(leave, code)

    for number in SIGNALS:
        signal.signal(number, handle_signal)


def ensure_end(code: int, seconds: float = GRACE) -> None:
    """End the program in so many seconds if it is still there. What was said is on the disk."""
    timer = Timer(seconds, _end, (code,))
    timer.daemon = True
    timer.start()


def _end(code: int) -> None:
    log.error("the application did not end by itself; its threads:\n%s", _threads())
    # On a terminal that reads nothing this waits forever.
    last = Thread(target=skeleton.put_back, daemon=True)
    last.start()
    last.join(1.0)
    os._exit(code)


def _threads() -> str:
    """What every thread does at the moment."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()
