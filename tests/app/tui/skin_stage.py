"""The application without a session, for tests of how it looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from app.tui.application import HermesApp
from app.tui.conversation.session_host import SessionRequest
from tests.support.waiting import until
from themes.loader import load_skin


async def never_opens(_wish: SessionRequest, _listener: Any) -> Any:
    """An opener whose session never comes: only the look matters."""
    await asyncio.Event().wait()


class Dressed(HermesApp):
    """An application that remembers its remarks."""

    def __init__(self, home: Path, skin: str) -> None:
        super().__init__(never_opens, load_skin(skin, home / "skins").skin, home / "skins")
        self.said: list[str] = []

    def show_notice(self, text: str, *, timeout: float | None = None) -> None:
        self.said.append(text)

    def show_warning(self, text: str) -> None:
        self.said.append(text)


def dressed(home: Path, skin: str = "night") -> Dressed:
    """An application whose own skins are in `home`, wearing a skin."""
    return Dressed(home, skin)


@asynccontextmanager
async def running(app: HermesApp, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    """The application on a terminal of `size`, panes_mounted and drawn."""
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.session.panes_mounted and app.beginning.is_over, "furnishing")
        await pilot.pause()
        yield pilot


def words(app: HermesApp, id: str) -> str:
    """What a line of the screen says."""
    return str(app.screen.query_one(id, Static).render())
