"""Nothing that is typed gets lost, wherever the keys are; and what is not text stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from tests.app.tui.test_application import stage
from tests.support.replies import say
from widgets.panes.agents import AgentsPane
from widgets.panes.files import FilesPane
from widgets.panes.log import LogPane
from widgets.panes.pane import EVERY_PANE, Pane
from widgets.panes.todo import TodoPane
from widgets.panes.workbench import MARGIN
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit_keys, letters


async def burst(scene: Any, text: str) -> None:
    """Type without waiting for anything in between."""
    for letter in text:
        key = {" ": "space", "\n": "enter", "/": "slash"}.get(letter, letter)
        scene.app.post_message(events.Key(key, "\r" if letter == "\n" else letter))


async def test_a_burst_of_text_moves_the_focus_with_its_first_letter_and_arrives_whole(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, [say("Hello.")], size=(120, 40)) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        session = scene.app.session
        for part in (session.calls, session.agents, session.todo, session.files, session.transcript):
            for typed in ("and hello new sun and jack", "quiet? no, jk: G[y]"):
                session.prompt.set_text("")
                session.set_focus(part)
                await scene.pilot.pause()
                shown = session.workbench.keys_shown()
                if typed[0] in shown:
                    continue
                await burst(scene, typed)
                await scene.until(lambda typed=typed: session.prompt.text == typed, f"{typed} from {part}")
                assert scene.app.focused is session.prompt


async def test_every_letter_that_a_part_takes_is_said_below_it(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Hello.")], size=(200, 40)) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        session = scene.app.session
        session.set_focus(session.transcript)
        await scene.pilot.pause()
        assert set("jkgGoywt[]hlnN<>? ") <= session.workbench.keys_shown()


@pytest.mark.parametrize("pane", [AgentsPane, FilesPane, LogPane, TodoPane])
def test_the_letters_that_move_are_taken_by_every_pane_at_80_columns(pane: type[Pane]) -> None:
    assert set("jkgG") <= letters(fit_keys(pane.KEYS + EVERY_PANE, 80 - 2 * MARGIN))


@pytest.mark.thorough
async def test_a_letter_that_is_no_key_of_a_list_begins_its_filter(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Hello.")], size=(120, 40)) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        for command in ("help", "model", "skin", "settings"):
            await scene.type(f"/{command}", "enter")
            await scene.until(lambda: scene.app.screen is not scene.app.session, command)
            rows = scene.app.screen.query(RowList).first()
            await scene.until(lambda rows=rows: rows.count and rows.has_focus, f"the rows of {command}")
            taken = {key for _, keys in scene.app.screen._modal_binding_chain for key in keys.key_to_bindings}
            letter = next(each for each in "zvxbhu" if each not in taken)
            await scene.pilot.press(letter, *"enj")
            assert rows.needle == f"{letter}enj", command
            await scene.pilot.press("escape", "escape")
            await scene.until(lambda: scene.app.screen is scene.app.session, f"the end of {command}")


@pytest.mark.parametrize(
    ("command", "typed", "searched"),
    [
        ("/sessions", "/draft run", "draft run"),
        ("/sessions", "zebra run", "zebra run"),
        ("/timeline", "/Rb draft", "Rb draft"),
    ],
)
async def test_a_search_that_is_typed_in_one_go_arrives_whole_and_presses_no_key(
    tmp_path: Path, command: str, typed: str, searched: str
) -> None:
    async with stage(tmp_path, [say("Hello."), say("Again.")], size=(120, 40)) as scene:
        for message in ("hi", "/new", "there"):
            await scene.type(message, "enter")
            await scene.quiet()
        await scene.type(command, "enter")
        await scene.until(lambda: scene.app.screen is not scene.app.session, command)
        await scene.until(lambda: scene.app.screen.focused is not None, "the focus")
        field = scene.app.screen.query(Input).first()
        await burst(scene, typed)
        await scene.until(lambda: field.value == searched, f"{typed} in {command}")


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", ["/memory", "/learnings", "/mcp", "/plugins", "/schedule"])
async def test_what_is_typed_in_one_go_with_the_key_that_opens_a_dialog_stands_in_it(
    tmp_path: Path, command: str
) -> None:
    async with stage(tmp_path, [say("Hello.")], size=(120, 40)) as scene:
        await scene.type(command, "enter")
        await scene.until(lambda: scene.app.screen is not scene.app.session, command)
        page = scene.app.screen
        await scene.until(lambda: page.is_mounted and page.focused is not None, "the focus")
        await burst(scene, "n")
        await burst(scene, "dear hello")
        text = lambda: getattr(scene.app.screen.focused, "value", "")  # noqa: E731
        await scene.until(lambda: scene.app.screen is not page and text() == "dear hello", "the words")
