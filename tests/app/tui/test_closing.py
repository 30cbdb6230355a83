"""Whatever is on the screen may close at any moment, and nothing breaks.

A worker that waits, a timer, or a message on its way may come round when the screen, or what lies
in it, is already gone. So each screen is closed after so many turns of the event loop.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.screen import Screen

from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import Dialog
from tests.app.tui.agents_stage import beginning
from tests.app.tui.closing_stage import BASES, OPENED, World, screens_of_ours, world
from tests.support.staged import Staged

pytestmark = pytest.mark.usefixtures("set_aside")

SPREAD = (0, 1, 2, 3, 5, 8, 13, 21, 34)
"""Turns of the event loop after which something closes: most continues in the first few."""
SETTLED = 60
"""Turns in which a screen has done most of what it does at first."""
SIZE = (100, 30)
TOGETHER = 3
"""Screens that lie over each other when the application ends."""


def some(*counts: int) -> list[Any]:
    """These of the spread in every run, the others in thorough ones."""
    return [pytest.param(each, marks=() if each in counts else pytest.mark.thorough) for each in SPREAD]


KINDS = [pytest.param(kind, number, id=kind.__name__) for number, kind in enumerate(OPENED)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.001)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


async def turns(count: int) -> None:
    """Let everything else have its turn so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


Act = Callable[[Staged, World], Awaitable[None]]


async def played(folder: Path, act: Act) -> None:
    """Run the application while `act` happens, to its end. Fails if anything broke, or continues after it."""
    broken: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: broken.append(str(context)))
    async with world(folder) as made:
        before = asyncio.all_tasks()
        app = Staged()

        async def play(_pilot: Pilot[Any]) -> None:
            await act(app, made)
            app.exit()

        await app.run_async(headless=True, size=SIZE, auto_pilot=play)
        await turns(20)
        assert not app.has_crashed, app.crash.text
        assert app.return_code == 0
        assert asyncio.all_tasks() - before == set()
    gc.collect()
    await turns(2)
    assert broken == []


async def panes_mounted(app: Staged) -> None:
    """Wait for the session, and let a few agents be at work in it."""
    while app.listener is None and app.is_running:
        await asyncio.sleep(0)
    app.hear(beginning())


async def gone(app: Staged, screen: Screen[Any]) -> None:
    """Wait until a screen and all that lay over it is no more."""
    while app.is_mounted(screen) and app.is_running:
        await asyncio.sleep(0)


def press(app: Staged, *keys: str) -> None:
    """Press keys, all before the first is heard of."""
    written = {"enter": "\r", "space": " ", "slash": "/"}
    for key in keys:
        app.post_message(events.Key(key, written.get(key, key if len(key) == 1 else None)))


async def shown(
    app: Staged, made: World, kind: type[Screen[Any]], ended: Callable[[Any], None] | None = None
) -> Screen[Any]:
    """Open a screen and wait until it takes keys; `ended` hears its outcome."""
    app.push_screen(screen := await OPENED[kind].make(made, app), ended)
    await turns(SETTLED)
    while isinstance(screen, Dialog) and not screen.armed and app.is_running:
        await asyncio.sleep(0)
    return screen


def test_every_screen_is_among_those_that_are_closed() -> None:
    assert {each.__name__ for each in screens_of_ours() ^ BASES ^ set(OPENED)} == set()


@pytest.mark.thorough
@pytest.mark.parametrize("count", some(1, 21))
async def test_every_screen_may_be_dismissed_at_any_moment(tmp_path: Path, count: int) -> None:
    async def act(app: Staged, made: World) -> None:
        await panes_mounted(app)
        for opened in OPENED.values():
            app.push_screen(screen := await opened.make(made, app))
            await turns(count)
            screen.dismiss(None)
            await gone(app, screen)

    await played(tmp_path, act)


@pytest.mark.thorough
@pytest.mark.parametrize("count", some(8))
async def test_every_screen_may_be_dismissed_soon_after_its_key(tmp_path: Path, count: int) -> None:
    async def act(app: Staged, made: World) -> None:
        await panes_mounted(app)
        for kind, opened in OPENED.items():
            screen = await shown(app, made, kind)
            press(app, opened.key)
            await turns(count)
            screen.dismiss(None)
            await turns(3)
            for above in reversed(app.screen_stack[1:]):
                above.dismiss(None)
            await gone(app, screen)

    await played(tmp_path, act)


# Each screen is ended in one of the two ways in every run, three at once; in thorough ones in both, alone.
@pytest.mark.sample(1)
@pytest.mark.parametrize("first", range(0, len(KINDS), 2 * TOGETHER))
async def test_the_application_may_end_while_screens_open(tmp_path: Path, first: int) -> None:
    await _ended(tmp_path, SPREAD[first % len(SPREAD)], *list(OPENED)[first : first + TOGETHER])


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(TOGETHER, len(KINDS), 2 * TOGETHER))
async def test_the_application_may_end_soon_after_a_key(tmp_path: Path, first: int) -> None:
    await _ended_after_key(tmp_path, SPREAD[first % len(SPREAD)], *list(OPENED)[first : first + TOGETHER])


@pytest.mark.thorough
@pytest.mark.parametrize("count", SPREAD)
@pytest.mark.parametrize(("kind", "_number"), KINDS)
async def test_the_application_may_end_at_any_moment_of_a_screen(
    tmp_path: Path, kind: type[Screen[Any]], _number: int, count: int
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    await _ended(tmp_path / "one", count, kind)
    await _ended_after_key(tmp_path / "other", count, kind)


async def _ended(folder: Path, count: int, *kinds: type[Screen[Any]]) -> None:
    async def act(app: Staged, made: World) -> None:
        for kind in kinds:
            app.push_screen(await OPENED[kind].make(made, app))
            await turns(count)

    await played(folder, act)


async def _ended_after_key(folder: Path, count: int, *kinds: type[Screen[Any]]) -> None:
    async def act(app: Staged, made: World) -> None:
        for kind in kinds:
            await shown(app, made, kind)
            press(app, OPENED[kind].key)
            await turns(count)

    await played(folder, act)


def drawn(_app: Staged) -> bool:
    return True


def furnishing(app: Staged) -> bool:
    return hasattr(app.session, "workbench")


def furnished_already(app: Staged) -> bool:
    return app.session.panes_mounted


def opening(app: Staged) -> bool:
    return app.listener is not None


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", some(0, 13))
@pytest.mark.parametrize("moment", [drawn, furnishing, furnished_already, opening])
async def test_the_application_may_end_while_it_starts(
    tmp_path: Path, moment: Callable[[Staged], bool], count: int
) -> None:
    async def act(app: Staged, _made: World) -> None:
        press(app, *"hi")
        while not moment(app) and app.is_running:
            await asyncio.sleep(0)
        await turns(count)

    await played(tmp_path, act)


@pytest.mark.thorough
async def test_a_key_that_closes_is_meant_once_however_often_it_is_pressed(tmp_path: Path) -> None:
    async def act(app: Staged, made: World) -> None:
        await panes_mounted(app)
        for kind in OPENED:
            before = app.screen_stack
            outcomes: list[object] = []
            screen = await shown(app, made, kind, outcomes.append)
            press(app, *["escape"] * 3)
            await turns(SETTLED)
            assert app.screen_stack in (before, [*before, screen]), kind.__name__
            screen.dismiss(None)
            await gone(app, screen)
            while not outcomes and app.is_running:
                await asyncio.sleep(0)
            assert (len(outcomes), app.screen_stack) == (1, before), kind.__name__

    await played(tmp_path, act)
