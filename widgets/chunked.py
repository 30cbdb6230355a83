"""Slicing of long work on the event loop, so that keys and frames are handled in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter

SLICE = 0.001
"""Seconds of work in one go, so that one and a frame stay below 4 ms together."""
REST = 0.003
"""Seconds the loop belongs to others between two slices."""


async def run_in_slices(
    steps: Iterable[object], seconds: float = SLICE, rest: float = REST
) -> AsyncIterator[None]:
    """Run through `steps`, each a small piece of work; yield after every slice, including the last."""
    end = perf_counter() + seconds
    for _ in steps:
        if perf_counter() >= end:
            yield
            await asyncio.sleep(rest)
            end = perf_counter() + seconds
    yield
