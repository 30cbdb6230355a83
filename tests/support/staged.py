"""The application on a stage: no engine, clocks that stand still, and the test telling what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import Any

from textual.pilot import Pilot

from agent.events import Event
from agent.workspace.git import Checkout
from app.tui.application import HermesApp
from app.tui.conversation.background_watch import GitBranchWatch
from app.tui.conversation.bridge import Bridge
from app.tui.conversation.session_host import Listener, SessionRequest
from tests.support.waiting import until
from themes.loader import load_skin

PATIENCE = 15.0
"""Seconds within which a screen comes to rest."""

AT = datetime(2026, 3, 4, 14, 2, 11)
"""What the clock on the wall says."""


class Clock:
    """Seconds that pass when a scene says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Staged(HermesApp):
    """The application in a skin, whose engine is whoever holds it."""

    def __init__(self, skin: str = "night", *, branch: Checkout | None = None) -> None:
        """`branch` is what git is to say about every workspace."""
        self.listener: Listener | None = None
        self.clock = Clock()
        super().__init__(self._wait, load_skin(skin).skin)
        setattr(self, "bridge", Bridge(self.session, self.requests, self.attention, self.clock))  # noqa: B010
        self._checkout = branch
        # What the workspace really is must not replace what a scene says.
        setattr(self, "branch", GitBranchWatch(lambda _found: None))  # noqa: B010

    async def _wait(self, _wish: SessionRequest, listener: Listener) -> Any:
        self._stop_clocks()
        self.appearance.set_motion(False)
        self.listener = listener
        await asyncio.Event().wait()

    def _stop_clocks(self) -> None:
        # The session makes its parts itself, with the clocks of the machine.
        self.session.transcript.clock = self.clock
        for pane in (self.session.status, self.session.agents, self.session.calls):
            setattr(pane, "_clock", self.clock)  # noqa: B010
        setattr(self.session.calls, "_now", lambda: AT)  # noqa: B010

    def _handle(self, event: Event) -> None:
        self.bridge(event)
        if event.type == "session_opened":
            self._show_branch(self._checkout)

    def hear(self, events: Sequence[Event]) -> None:
        """Let these events happen."""
        assert self.listener is not None
        for event in events:
            self.listener(event)


Act = Callable[[Staged, Pilot[Any]], Awaitable[None]]
"""What happens on the stage."""


async def drawn(pilot: Pilot[Any]) -> None:
    """Wait until what was told stands on the screen, and the screen has come to rest.

    A key that is pressed while parts are still laid out or the prompt has not yet been focused would meet
    another screen than the one the scene means, and no waiting afterwards would fix that.
    """
    app = pilot.app
    assert isinstance(app, Staged)
    await pilot.pause()
    app.session.transcript.flush()
    await pilot.pause(0.05)
    end, before = monotonic() + PATIENCE, None
    while (picture := _picture(app)) != before and monotonic() < end:
        before = picture
        await pilot.pause(0.05)


def _picture(app: Staged) -> object:
    """What is shown, to be compared with what is shown later."""
    return app.focused, app.screen.size, app.screen._compositor.render_strips()


def scene(act: Act) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """For pictures: wait for the session, let it happen, wait until it is drawn."""

    async def play(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, Staged)
        await until(pilot, lambda: app.listener is not None, "the start")
        await act(app, pilot)
        await drawn(pilot)

    return play
