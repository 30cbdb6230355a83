"""Cleanup of the checkpoint store during a session, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.workspace.checkpoints.garbage_collection import Collected, collecting
from agent.workspace.checkpoints.store import CheckpointStore

if TYPE_CHECKING:
    from agent.core.config.schema import CheckpointSettings

log = logging.getLogger(__name__)

FIRST_SECONDS = 180.0
"""Seconds from the start to the first cleanup, so that it does not slow the start."""
AGAIN_SECONDS = 6 * 3600.0
BUSY_SECONDS = 600.0
"""Seconds before a retry while somebody uses the store."""
PAUSE_SECONDS = 0.05
"""Seconds between two pieces, so that cleanup takes a small share of a core and of the disk."""


async def keep_tidy(
    store: CheckpointStore,
    settings: CheckpointSettings,
    living: Collection[str] | None,
    *,
    further: Callable[[], object] = lambda: None,
    first: float = FIRST_SECONDS,
) -> None:
    """Remove checkpoints beyond the limits, first after `first` seconds and then every few hours.

    `living` returns the existing sessions before each cleanup (None: unknown, so all are kept). `further`
    cleans up something else. Each piece of work runs in a thread; a failure is logged and retried later. Runs
    until cancelled.
    """
    pause = first
    while True:
        await asyncio.sleep(pause)
        done = Collected(busy=True)
        try:
            done = await _collected(store, settings, living)
            await asyncio.to_thread(further)
        except (HermesError, OSError) as error:
            log.warning("checkpoints could not be cleared: %s", error)
        pause = BUSY_SECONDS if done.busy else AGAIN_SECONDS


async def _collected(
    store: CheckpointStore, settings: CheckpointSettings, living: Collection[str] | None
) -> Collected:
    pieces = collecting(
        store,
        max_bytes=settings.max_total_mb * 1_000_000,
        max_age=settings.max_age_days * 86_400,
        living=None if living is None else frozenset(living),
    )
    done = Collected()
    while (piece := await asyncio.to_thread(_next, pieces)) is not None:
        done = piece
        await asyncio.sleep(PAUSE_SECONDS)
    return done


def _next(pieces: Iterator[Collected]) -> Collected | None:
    return next(pieces, None)
