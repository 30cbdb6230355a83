"""The switch interval of the interpreter: threads that compute give way to the event loop.

Between a key and its picture the loop asks the system a number of things, and lets go of the
interpreter for each. A thread that computes gives it back after the switch interval only: with
Python's own 5 ms a key waited 11 ms beside such a thread, at worst 50; with 1 ms it waits 2, at worst 4.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH = 0.001
"""Seconds after which another thread may run."""


@contextmanager
def sharing() -> Iterator[None]:
    """Threads give way to the event loop soon, as long as the block runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
