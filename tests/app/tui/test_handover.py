"""The two steps of the start: text is taken at once, everything else when the screen is complete."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from agent.session.engine import Engine
from app.tui.application import HermesApp
from app.tui.conversation.session_host import Listener, SessionRequest
from app.tui.conversation.session_screen import PANES_MODULE, SessionScreen
from app.tui.startup import handover
from tests.support.waiting import until


async def no_session(wish: SessionRequest, listener: Listener) -> Engine:
    await asyncio.Event().wait()
    raise AssertionError(wish, listener)


@pytest.fixture
def may_furnish(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The screen is panes_mounted when this is set."""
    event, mount_panes = asyncio.Event(), SessionScreen.mount_panes

    async def later(screen: SessionScreen, *, welcome: bool) -> None:
        await event.wait()
        await mount_panes(screen, welcome=welcome)

    monkeypatch.setattr(SessionScreen, "mount_panes", later)
    return event


async def test_text_is_drawn_before_the_screen_is_furnished(may_furnish: asyncio.Event) -> None:
    app = HermesApp(no_session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("a", "b")
        await until(pilot, lambda: app.session.prompt.text == "ab")
        assert not app.session.panes_mounted and not may_furnish.is_set()


async def test_other_keys_wait_and_what_follows_them_stays_behind(may_furnish: asyncio.Event) -> None:
    app = HermesApp(no_session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("a", "b", "left", "c", "f1", "d")
        await until(pilot, lambda: app.session.prompt.text == "ab")
        await pilot.pause(0.05)
        assert app.session.prompt.text == "ab" and app.screen is app.session
        may_furnish.set()
        await until(pilot, lambda: app.screen is not app.session)
        assert app.session.prompt.text.startswith("ac")


async def test_the_screen_is_furnished_in_a_pause_of_typing_or_when_a_key_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "PAUSE", 30.0)
    monkeypatch.setattr(handover, "LONGEST", 60.0)
    app = HermesApp(no_session)
    async with app.run_test(size=(120, 40)) as pilot:
        app.last_key = time.monotonic()
        await pilot.press("a")
        await until(pilot, lambda: PANES_MODULE in sys.modules)
        await pilot.pause(0.1)
        assert app.session.prompt.text == "a" and not app.session.panes_mounted
        await pilot.press("left", "b")
        await until(pilot, lambda: app.session.panes_mounted and app.session.prompt.text == "ba")


async def test_whoever_types_on_gets_the_panes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "PAUSE", 30.0)
    monkeypatch.setattr(handover, "LONGEST", 0.1)
    app = HermesApp(no_session)
    async with app.run_test(size=(120, 40)) as pilot:
        app.last_key = time.monotonic()
        await pilot.press("a")
        await until(pilot, lambda: app.session.panes_mounted)
        assert app.session.prompt.text == "a"


async def test_panes_come_as_they_are_to_be_arranged() -> None:
    app = HermesApp(no_session)
    app.session.restore({"width": 44, "folded": ["log"]})
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.session.panes_mounted)
        assert app.session.calls.folded and not app.session.todo.folded
        assert app.session.workbench.state() == {"width": 44, "folded": ["log"]}
