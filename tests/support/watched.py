"""The application on a terminal that writes down every byte: what it paints, and where."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.widget import Widget

from app.tui.application import HermesApp
from app.tui.conversation.session_host import Listener, SessionRequest
from tests.support.painted import PaintedScreen
from tests.support.waiting import PATIENCE


class Watch:
    """A running application without an engine, and the screen it painted."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.screen = PaintedScreen(*size)
        self.app: HermesApp
        self.pilot: Pilot[None]

    @property
    def faults(self) -> list[str]:
        return self.screen.faults

    async def settle(self, seconds: float = 0.0) -> None:
        """Wait until what was told is painted."""
        for _ in range(2):
            await self.pilot.pause(seconds)
        self.app.screen.refresh()
        await self.pilot.pause()

    def seen(self, widget: Widget | None = None) -> str:
        """What stands on the screen, or on the part of it that belongs to a widget."""
        if widget is None:
            return "\n".join(self.screen.rows())
        return self.screen.text(*widget.region)

    async def until(self, words: str, widget: Widget | None = None) -> None:
        """Wait until a widget shows these words. Raises `AssertionError` with what it shows instead."""
        end = time.monotonic() + PATIENCE
        while words not in self.seen(widget):
            if time.monotonic() > end:
                raise AssertionError(f"{words} is not in {self.seen(widget)!r}")
            await self.settle(0.02)


@asynccontextmanager
async def watched(size: tuple[int, int] = (120, 40), **options: Any) -> AsyncIterator[Watch]:
    """The application, painted for a terminal of this size."""
    watch = Watch(size)

    class Recorder(HeadlessDriver):
        @property
        def is_headless(self) -> bool:
            return False

        def write(self, data: str) -> None:
            watch.screen.feed(data)

    class Recorded(App[None]):
        def get_driver_class(self) -> type[Driver]:
            return Recorder

    class WatchedApp(HermesApp, Recorded):
        """The application, whose driver is the recorder."""

    async def opener(_wish: SessionRequest, _listener: Listener) -> Any:
        await asyncio.Event().wait()

    watch.app = WatchedApp(opener, **options)
    async with watch.app.run_test(size=size, headless=False) as pilot:
        watch.pilot = pilot
        while not watch.app.session.query("Transcript"):
            await pilot.pause(0.02)
        await watch.settle()
        yield watch
