"""Ways out that work wherever one is: suspending, and esc out of the conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.selection import SELECT_ALL
from textual.widgets import Static

from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import DetailScreen, TextDialog
from tests.support import story
from tests.support.staged import Staged, drawn
from tests.support.waiting import until

Over = Callable[[Staged, Pilot[Any]], Awaitable[None]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 60.0)


async def approval(app: Staged, pilot: Pilot[Any]) -> None:
    """A dialog that is not armed yet."""
    app.hear([story.approval()])
    app.requests.show_now()


async def text(app: Staged, _pilot: Pilot[Any]) -> None:
    app.push_screen(TextDialog("New title"))


async def detail(app: Staged, _pilot: Pilot[Any]) -> None:
    app.push_screen(DetailScreen("Call", "pytest -q"))


async def palette(_app: Staged, pilot: Pilot[Any]) -> None:
    await pilot.press("ctrl+p")


async def settings(_app: Staged, pilot: Pilot[Any]) -> None:
    await pilot.press("f2")


async def begun(pilot: Pilot[Any]) -> Staged:
    app = pilot.app
    assert isinstance(app, Staged)
    await until(pilot, lambda: app.listener is not None, "the start")
    return app


@pytest.mark.sample(1)
@pytest.mark.parametrize("over", [approval, text, detail, palette, settings])
async def test_suspending_works_over_everything(over: Over, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    monkeypatch.setattr(Staged, "action_suspend_process", lambda app: left.append(type(app.screen).__name__))
    async with Staged().run_test(size=(80, 24)) as pilot:
        app = await begun(pilot)
        app.hear([story.opened(), *story.asked()])
        await over(app, pilot)
        await until(pilot, lambda: len(app.screen_stack) > 1, "something over the session")
        shown = app.screen
        await pilot.press("ctrl+z")
        await until(pilot, lambda: left, "a suspension")
        assert app.screen is shown and len(left) == 1


async def test_another_key_suspends_over_a_dialog_when_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.tui.commands.keys import resolve

    left: list[bool] = []
    monkeypatch.setattr(Staged, "action_suspend_process", lambda app: left.append(True))
    async with Staged().run_test(size=(80, 24)) as pilot:
        app = await begun(pilot)
        app.use_keys(resolve({"program.suspend": "f9"}))
        await detail(app, pilot)
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("ctrl+z")
        assert not left
        await pilot.press("f9")
        assert left


@pytest.mark.thorough
async def test_the_palette_looks_for_commands_with_a_glyph_of_one_cell() -> None:
    async with Staged().run_test(size=(80, 24)) as pilot:
        app = await begun(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert "⌕" in {str(each.content) for each in app.screen.query(Static)}
        await pilot.press("ctrl+p")
        assert len(app.screen_stack) == 2


@pytest.mark.thorough
async def test_esc_in_the_conversation_leads_back_to_the_prompt() -> None:
    async with Staged().run_test(size=(80, 24)) as pilot:
        app = await begun(pilot)
        app.hear(story.done())
        await drawn(pilot)
        app.session.transcript.focus()
        await pilot.pause()
        await pilot.press("escape")
        assert app.focused is app.session.prompt


@pytest.mark.thorough
async def test_esc_in_the_conversation_ends_a_selection_then_a_search_and_then_leads_back() -> None:
    async with Staged().run_test(size=(80, 24)) as pilot:
        app = await begun(pilot)
        app.hear(story.done())
        await drawn(pilot)
        await app.actions.find("round")
        transcript = app.session.transcript
        app.session.selections = {transcript: SELECT_ALL}
        await pilot.pause()
        assert app.session.get_selected_text()
        await pilot.press("escape")
        assert not app.session.get_selected_text()
        assert transcript.finder.pattern and app.focused is transcript
        await pilot.press("escape")
        await until(pilot, lambda: not transcript.finder.pattern, "the end of the search")
        assert app.focused is transcript
        await pilot.press("escape")
        assert app.focused is app.session.prompt


@pytest.mark.thorough
async def test_esc_in_the_conversation_stops_a_running_turn_and_leads_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[bool] = []
    async with Staged().run_test(size=(80, 24)) as pilot:
        app = await begun(pilot)
        app.hear([story.opened(), *story.asked(), *story.thinking()])
        await drawn(pilot)
        monkeypatch.setattr(app.actions, "is_allowed", lambda id: True)
        monkeypatch.setattr(app.actions, "stop", lambda _argument: stopped.append(True))
        app.session.transcript.focus()
        app.session.prompt.busy = True
        await pilot.pause()
        await pilot.press("escape")
        await until(pilot, lambda: stopped, "the stop")
        assert app.focused is app.session.prompt
