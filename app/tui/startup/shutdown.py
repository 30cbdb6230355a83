"""Ending the application on a signal: in an orderly way if possible, by force after a while."""

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
"""Seconds that an orderly end may take before it is forced."""


def on_signals(leave: Callable[[int], None]) -> None:
    """Install handlers that call `leave` on the running event loop, with the exit code of the signal.

    They are not handlers of the event loop, so they run even while the loop is blocked.
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
    """Start a timer that ends the program after `seconds` if it still runs. The conversation is on disk."""
    timer = Timer(seconds, _end, (code,))
    timer.daemon = True
    timer.start()


def _end(code: int) -> None:
    log.error("the application did not end by itself; its threads:\n%s", _threads())
    # On a terminal that reads nothing, this would wait forever.
    last = Thread(target=skeleton.restore_in_emergency, daemon=True)
    last.start()
    last.join(1.0)
    os._exit(code)


def _threads() -> str:
    """Return the current stacks of all threads as text."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()
