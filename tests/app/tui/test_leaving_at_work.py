"""Whoever leaves while a session opens, works or goes back loses nothing and sees nothing break."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agent.api.opening import open_session
from agent.session.options import Options
from app.tui.application import HermesApp
from app.tui.conversation.session_host import Listener, SessionRequest
from tests.agent.session.history.test_navigation import Engineer
from tests.support.engines import Bench, bench
from tests.support.team import UNASKED

pytestmark = pytest.mark.usefixtures("set_aside")

SPREAD = (0, 1, 3, 8, 21, 55, 144)
"""Turns of the event loop after which the application ends."""


def some(*counts: int) -> list[Any]:
    """These of the spread in every run, the others in thorough ones."""
    return [pytest.param(each, marks=() if each in counts else pytest.mark.thorough) for each in SPREAD]


SIZE = (100, 30)


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


class Leaving(HermesApp):
    """The application over a real engine, which tells how far it has come."""

    def __init__(self, made: Bench) -> None:
        made.config(UNASKED)
        self._made = made
        self.asked = False
        """Whether a session was asked for."""
        super().__init__(self._open)

    async def _open(self, wish: SessionRequest, listener: Listener) -> Any:
        self.asked = True
        environ = {
            "HERMES_HOME": str(self._made.home),
            "OPENAI_BASE_URL": self._made.server.base_url,
            "OPENAI_API_KEY": "test-key",
            "HERMES_MODEL": "scripted",
        }
        options = Options(
            workspace=self._made.workspace,
            attended=True,
            approve="all",
            resume=wish.resume,
            resume_last=True,
            model=wish.model,
        )
        return await open_session(options, listener, self._made.events.append, environ=environ)

    async def until(self, true: Callable[[], object]) -> None:
        """Wait for something, as long as the application continues."""
        while not true() and self.is_running:
            await asyncio.sleep(0)


async def left(made: Bench, act: Callable[[Leaving], Awaitable[None]], count: int) -> None:
    """Let `act` happen, leave after so many turns more, and see that all of it is over."""
    broken: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: broken.append(str(context)))
    app = Leaving(made)

    async def play(_pilot: Pilot[Any]) -> None:
        await act(app)
        for _ in range(count):
            await asyncio.sleep(0)
        app.exit()

    try:
        await app.run_async(headless=True, size=SIZE, auto_pilot=play)
    finally:
        await app.host.close()
    gc.collect()
    await asyncio.sleep(0)
    assert not app.has_crashed, app.crash.text
    assert (app.return_code, app.failure, broken) == (0, None, [])


async def opening(app: Leaving) -> None:
    await app.until(lambda: app.asked)


async def opened(app: Leaving) -> None:
    await app.until(lambda: app.host.client is not None)


async def working(app: Leaving) -> None:
    app.message_sender.send("write a two")
    await app.until(lambda: app.host.busy)


@pytest.mark.sample(1)
@pytest.mark.parametrize("moment", [opening, opened, working], ids=lambda moment: moment.__name__)
@pytest.mark.parametrize("count", some(0, 8, 55))
async def test_what_was_said_before_is_there_again(tmp_path: Path, moment: Any, count: int) -> None:
    async with bench(tmp_path, Engineer()) as made:
        await made.turn("write a one")
        await left(made, moment, count)
        async with made.engine(resume_last=True) as engine:
            said = [node.content for node in await engine.session.whole_path() if node.kind == "user"]
            assert said[0] == "write a one"
            assert set(said[1:]) <= {"write a two"}
        assert (made.workspace / "a").read_text() in ("one", "two")


@pytest.mark.thorough
@pytest.mark.parametrize("count", some(3, 21, 144))
async def test_a_way_back_is_gone_whole_or_not_at_all(tmp_path: Path, count: int) -> None:
    async with bench(tmp_path, Engineer()) as made:
        for text in ("write a one", "write b two", "write a three"):
            await made.turn(text, resume_last=text != "write a one")

        async def undo(app: Leaving) -> None:
            await opened(app)
            app.action_order("session.undo")

        await left(made, undo, count)
        async with made.engine(resume_last=True) as engine:
            said = [node.content for node in await engine.session.whole_path() if node.kind == "user"]
            text = (made.workspace / "a").read_text()
            assert (len(said), text) in ((3, "three"), (2, "one"))
