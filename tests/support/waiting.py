"""Waiting for something to come true, however busy the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.pilot import Pilot

PATIENCE = 60.0
"""Seconds after which a wait is in vain. A wait ends as soon as what it waits for is there."""
SHORT = 0.2
"""Seconds in which it is looked for every few milliseconds."""


async def until(pilot: Pilot[Any], true: Callable[[], object], what: str = "it") -> None:
    """Let an application continue until something is true. Raises `AssertionError` if it never is."""
    start = time.monotonic()
    while True:
        waited = time.monotonic() - start
        if waited > SHORT:
            # A look asks all widgets whether they are done, which is work too.
            await asyncio.sleep(0.03)
        await pilot.pause(0.01)
        if true():
            return
        if waited > PATIENCE:
            shown, focus = pilot.app.screen, pilot.app.focused
            raise AssertionError(f"{what} never happened: {shown!r} is shown, {focus!r} has the keys")
