"""Putting a workbench where its place was kept, in steps: each turn of the event loop does a part of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.screen import Screen

    from widgets.panes.empty_workbench import EmptyBench
    from widgets.panes.workbench import Workbench


async def bring_in(screen: Screen[Any], workbench: Workbench, empty: EmptyBench) -> None:
    """Mount `workbench` out of sight beside `empty`, which keeps its place.

    Raises `MountError` once the screen is closed.
    """
    workbench.set_hidden(True)
    workbench.display = False
    await screen.mount(workbench, after=empty)


async def put_in_place(screen: Screen[Any], workbench: Workbench, empty: EmptyBench) -> None:
    """Show `workbench` where `empty` stands: conversation and rules first, its panes after them.

    Returns once all of it is painted. To be awaited where messages of the screen do not wait for it.
    """
    await _painted(screen)
    # What it covers stays, out of sight: taking it away would be one more layout.
    empty.display, workbench.display = False, True
    await _painted(screen)
    workbench.set_hidden(False)
    await _painted(screen)


async def _painted(screen: Screen[Any]) -> None:
    """Wait until everything so far is on the screen."""
    done = asyncio.Event()
    screen.call_after_refresh(done.set)
    await done.wait()
