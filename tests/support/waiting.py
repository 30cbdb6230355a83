"""Waiting for something to come true, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.pilot import Pilot

PATIENCE = 60.0
"""Seconds after which a wait is in vain. A wait ends as soon as what it waits for is there."""


async def until(pilot: Pilot[Any], true: Callable[[], object], what: str = "it") -> None:
    """Let an application go on until something is true. Raises `AssertionError` if it never is."""
    end = time.monotonic() + PATIENCE
    while True:
        await pilot.pause(0.01)
        if true():
            return
        if time.monotonic() > end:
            shown, focus = pilot.app.screen, pilot.app.focused
            raise AssertionError(f"{what} never happened: {shown!r} is shown, {focus!r} has the keys")
