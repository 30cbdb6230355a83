"""Pauses of a test that mean the same on a busy machine as on a quiet one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from textual.app import ScreenStackError
from textual.pilot import Pilot

TURNS = 100
"""Turns of the event loop that a chain of messages takes at most: a key, what it posts, what that draws."""

STILL = 20
"""Turns after one another in which nothing was left to do: the chain has come to its end."""

_SHORT = 0.01
"""Seconds of a pause after which a test looks again anyway."""

_pause = Pilot.pause


def steady_pause(pause: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """`Pilot.pause` that also lets what became due meanwhile come to its end.

    A machine that is busy elsewhere can let all the seconds of a pause go by within
    one turn of the event loop; a test that counts on them would look too early.
    """

    async def paused(pilot: Pilot[object], delay: float | None = None) -> None:
        await pause(pilot, delay)
        if delay is None or delay > _SHORT:
            await _come_to_rest(pilot)

    return paused


def steady_press(press: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """`Pilot.press` that also lets what the keys lead to come to its end."""

    async def pressed(pilot: Pilot[object], *keys: str) -> None:
        await press(pilot, *keys)
        await _come_to_rest(pilot)

    return pressed


async def _come_to_rest(pilot: Pilot[object]) -> None:
    loop, still = asyncio.get_running_loop(), 0
    for _ in range(TURNS):
        await asyncio.sleep(0)
        # What is to be done in the next turn; the loop has no other word for it.
        still = 0 if getattr(loop, "_ready", True) else still + 1
        if still == STILL:
            break
    # What was done may have been to quit.
    if pilot.app.is_running:
        with suppress(ScreenStackError):
            await _pause(pilot, 0)
