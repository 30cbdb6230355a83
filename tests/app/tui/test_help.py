"""Help says what works where the person is, with the keys that are in force."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget

import app
import widgets
from app.tui.commands.keys import resolve
from app.tui.commands.registry import COMMANDS, all_commands
from app.tui.screens.help import (
    KEY_CELLS,
    PROMPT,
    HelpEntry,
    HelpScreen,
    commands,
    edits,
    essential,
    everywhere,
    here,
    in_column,
    with_titles,
)
from tests.app.tui.pages import PageHost, lines_of, pressing
from tests.app.tui.test_application import stage
from tests.support.sessions import engine_of
from tests.support.waiting import until
from widgets.key_names import shown_key
from widgets.prompt.keys import KEYS
from widgets.prompt.widget import Prompt

pytestmark = pytest.mark.usefixtures("_quick")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


def nodes_with_keys() -> list[type[Widget]]:
    """Every widget and screen of ours."""
    found: set[type[Widget]] = set()
    for package in (widgets, app):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, type) and issubclass(value, Widget) and value.__module__ == info.name:
                    found.add(value)
    return sorted(found, key=lambda each: each.__qualname__)


@pytest.mark.sample(32)
@pytest.mark.parametrize("owner", nodes_with_keys(), ids=lambda owner: owner.__qualname__)
def test_every_key_of_a_widget_says_what_it_does(owner: type[Widget]) -> None:
    silent = [
        binding
        for binding in owner.__dict__.get("BINDINGS", ())
        if not (binding.description if isinstance(binding, Binding) else binding[2:] and binding[2])
    ]
    assert silent == []


def test_the_widgets_were_found() -> None:
    names = {owner.__name__ for owner in nodes_with_keys()}
    assert {"Prompt", "Transcript", "LogPane", "PaneBar", "Workbench", "HelpScreen", "ModelsScreen"} <= names


def test_every_command_is_there_with_the_keys_in_force() -> None:
    found = {entry.name: entry for entry in commands(resolve({"program.palette": "f9"}))}
    assert {command.name for command in all_commands()} == set(found)
    assert found["All commands"].keys == "F9"
    assert found["Model"].keys == "alt+m" and found["Model"].slash == "/model"


def test_each_section_has_one_title() -> None:
    entries = list(with_titles([*commands(resolve({})), *everywhere()]))
    titles = [entry.section for entry in entries if not entry.name]
    assert len(titles) == len(set(titles)) and titles[-1] == "The same in every list"


def test_what_makes_hermes_is_said_with_the_keys_in_force() -> None:
    shown = [entry.keys for entry in essential(resolve({"session.undo": "f8", "session.timeline": ""}))]
    assert shown == ["/", "@", "!", "^P", "alt+m", "esc esc", "F8", "alt+j", "alt+a"]


def test_help_in_a_list_begins_with_the_list_and_at_the_prompt_with_what_makes_hermes() -> None:
    listed = HelpScreen([HelpEntry("Here: sessions", "Rename", "r")], resolve({}))
    prompt = HelpScreen(
        [HelpEntry(edits("prompt.left"), "Left", "←"), HelpEntry(PROMPT, "Send", "⏎")], resolve({})
    )
    titles = [
        [entry.section for entry in screen.rows._entries if not entry.name]  # type: ignore[attr-defined]
        for screen in (listed, prompt)
    ]
    assert titles[0][:2] == ["Here: sessions", "What makes Hermes"]
    assert titles[1][:2] == ["What makes Hermes", "Here: prompt"] and titles[1][-1] == edits("prompt.left")


def sections(screen: Screen[Any]) -> list[str]:
    return list(dict.fromkeys(entry.section for entry in here(screen, resolve({}))))


@pytest.mark.thorough
async def test_in_the_prompt_help_begins_with_the_keys_of_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as scene:
        assert isinstance(scene.app.screen.focused, Prompt)
        changed = resolve({"prompt.search": "f8", "prompt.redo": ""})
        entries = {entry.name: entry for entry in here(scene.app.screen, changed)}
        assert entries["Search what was sent before"].keys == "F8"
        assert "Redo" not in entries and len(entries) == len(KEYS) - 1
        assert entries["Right"].keys == "→" and entries["Undo"].keys == "^_"  # ^F and ^Z are the session's
        assert "^D" in entries["Delete right"].keys.split()  # it quits only where nothing is written
        await scene.pilot.press("f1")
        await scene.until(lambda: isinstance(scene.app.screen, HelpScreen))
        assert lines_of(scene.app.screen.rows)[0].strip() == "What makes Hermes"  # type: ignore[attr-defined]
        await scene.pilot.press("f1")
        await scene.until(lambda: scene.app.screen is scene.app.session)


@pytest.mark.thorough
async def test_a_question_mark_is_text_in_the_prompt_and_help_elsewhere(tmp_path: Path) -> None:
    async with stage(tmp_path, [], size=(120, 40)) as scene:
        await scene.type("why", "question_mark")
        await scene.pilot.pause(0.05)
        assert scene.app.session.prompt.text == "why?"
        scene.app.session.transcript.focus()
        await scene.pilot.press("question_mark")
        await scene.until(lambda: isinstance(scene.app.screen, HelpScreen))
        shown = lines_of(scene.app.screen.rows)  # type: ignore[attr-defined]
        assert shown[0].strip() == "Here: conversation"
        assert any("Next item" in line for line in shown)


@pytest.mark.thorough
async def test_a_pane_tells_its_own_keys_and_those_of_its_list(tmp_path: Path) -> None:
    async with stage(tmp_path, [], size=(120, 40)) as scene:
        scene.app.session.calls.focus()
        await scene.pilot.pause()
        entries = here(scene.app.screen, resolve({}))
        assert entries[0].section == "Here: log"
        by_name = {entry.name: entry.keys for entry in entries}
        assert by_name["Filter"] == "/" and by_name["Up"] == "↑ k" and by_name["Fold"] == "space"
        assert not {command.name for command in COMMANDS if command.keys} & set(by_name)


@pytest.mark.thorough
async def test_screens_over_the_session_have_help_of_their_own(tmp_path: Path) -> None:
    async with stage(tmp_path, [], size=(80, 24)) as scene:
        await scene.type("/sessions", "enter")
        await scene.until(lambda: type(scene.app.screen).__name__ == "SessionsScreen")
        await scene.pilot.press("f1")
        await scene.until(lambda: isinstance(scene.app.screen, HelpScreen))
        rows = scene.app.screen.rows  # type: ignore[attr-defined]
        await scene.pilot.press("slash", *"rename", "enter")
        await scene.until(lambda: any("Here" not in line and "rename" in line for line in lines_of(rows)))
        await scene.pilot.press("escape", "escape")
        await scene.until(lambda: type(scene.app.screen).__name__ == "SessionsScreen")


@pytest.mark.thorough
async def test_the_context_the_log_and_the_models_open_from_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as scene:
        for word, name in (("context", "ContextScreen"), ("logs", "LogScreen"), ("model", "ModelsScreen")):
            await scene.type(f"/{word}", "enter")
            await scene.until(lambda name=name: type(scene.app.screen).__name__ == name, word)
            await scene.pilot.press("question_mark")
            await scene.until(lambda: isinstance(scene.app.screen, HelpScreen))
            await scene.pilot.press("escape", "escape")
            await scene.until(lambda: scene.app.screen is scene.app.session)


@pytest.mark.thorough
async def test_choosing_a_model_goes_on_with_the_session(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as scene:
        before = engine_of(scene.app).session.id
        await scene.pilot.press("alt+m")
        await scene.until(lambda: type(scene.app.screen).__name__ == "ModelsScreen")
        await scene.pilot.press("slash", *"demo", "enter")
        rows = scene.app.screen.rows  # type: ignore[attr-defined]
        await scene.until(lambda: rows.pointed is not None and rows.pointed.name == "demo")
        await scene.pilot.press("enter")
        await scene.until(lambda: scene.app.host.client is not None and scene.app.host.client.model == "demo")
        assert engine_of(scene.app).session.id == before


@pytest.mark.thorough
async def test_slash_filters_the_page(tmp_path: Path) -> None:
    host = PageHost(lambda: HelpScreen([], resolve({})))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(host.screen, HelpScreen))
        await pilot.press("slash", *"skin editor", "enter")
        rows = host.screen.rows  # type: ignore[attr-defined]
        await until(pilot, lambda: rows.shown_count == 1)
        assert "/skin-editor" in lines_of(rows)[0]


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        ("", [""]),
        ("^J shift+⏎ alt+⏎", ["^J shift+⏎ alt+⏎"]),
        ("ctrl+← alt+← alt+b", ["ctrl+← alt+←", "alt+b"]),
        ("alt+backspace ctrl+backspace", ["alt+backspace", "ctrl+backspace"]),
        ("^A ctrl+shift+backspace ^B", ["^A", "ctrl+shift+backspace", "^B"]),
    ],
)
def test_keys_that_find_no_room_in_their_column_go_on_below(keys: str, lines: list[str]) -> None:
    assert in_column(keys, KEY_CELLS - 2) == lines


@pytest.mark.thorough
async def test_what_a_key_does_begins_in_one_column_however_many_keys_there_are() -> None:
    entries = [HelpEntry("Here: prompt", "Act", " ".join(map(shown_key, key.keys))) for key in KEYS]
    host = PageHost(lambda: HelpScreen(entries, resolve({})))
    async with host.run_test(size=(80, 200)) as pilot:
        await until(pilot, lambda: isinstance(host.screen, HelpScreen))
        shown = lines_of(host.screen.rows)  # type: ignore[attr-defined]
        acts = [line.index("Act") for line in shown if line.endswith("Act")]
        assert len(acts) == len(KEYS) and set(acts) == {1 + KEY_CELLS}


async def test_what_a_command_does_begins_in_one_column_however_long_its_name_is() -> None:
    host = PageHost(lambda: HelpScreen([], resolve({})))
    async with host.run_test(size=(120, 300)) as pilot:
        await until(pilot, lambda: isinstance(host.screen, HelpScreen))
        shown = lines_of(host.screen.rows)  # type: ignore[attr-defined]
        starts = {
            line.index(start)
            for each in COMMANDS
            for line in shown
            if f" /{each.slash} " in line and (start := f" {each.description[:24]}") in line
        }
        assert len(starts) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize("skin", ["night", "paper"])
def test_help_looks_as_it_should(snap_compare: Any, size: tuple[int, int], skin: str) -> None:
    entries = [
        HelpEntry(edits(key.id) or PROMPT, key.description, " ".join(map(shown_key, key.keys)))
        for key in KEYS
    ]
    host = PageHost(lambda: HelpScreen(entries, resolve({})), skin)
    assert snap_compare(host, terminal_size=size, run_before=pressing("down"))
