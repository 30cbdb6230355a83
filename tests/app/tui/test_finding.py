"""Commands are found by any word about them: in the palette and in the menu of the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from app.tui.commands.registry import BY_ID, SLASH_ALIASES, all_commands, find_commands
from app.tui.commands.slash_menu import (
    FIRST_WORDS,
    MOST_RECENT,
    aliases_of,
    note_recent,
    offer_commands,
    palette_entries,
    recent_ids,
)
from app.tui.conversation.saved_layout import SavedLayout
from app.tui.screens.page import KeyLine
from app.tui.screens.palette import RECENT, PaletteEntry, PaletteScreen, find_entries
from tests.app.tui.test_application import stage
from tests.support.staged import Staged
from tests.support.waiting import until
from widgets.prompt.completion import rank_commands
from widgets.prompt.widget import Prompt


def entries() -> list[PaletteEntry]:
    return [*palette_entries(Staged(), None)]


def names(query: str) -> list[str]:
    return [each.name for each in find_entries(entries(), query)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("undo", "Undo"),
        ("tmln", "Timeline"),
        ("clear", "New session"),
        ("theme", "Skin"),
        ("cost", "Usage and ceilings"),
        ("what was taken back", ""),
        ("resume session", "Resume a session"),
        ("live preview", "Skin"),
    ],
)
def test_a_command_is_found_by_name_slash_word_alias_or_description(query: str, first: str) -> None:
    assert (names(query) or [""])[0] == first


def test_without_a_query_the_groups_stand_in_the_order_of_the_registry_recent_ones_first() -> None:
    some = [PaletteEntry(RECENT, "Undo"), *entries()]
    titles = [each.group for each in find_entries(some, " ") if not each.name]
    assert titles == [RECENT, "Turn", "Conversation", "Sessions", "View", "Program"]
    assert [each.group for each in find_entries(some, "undo")].count(RECENT) == 0


def test_every_command_with_a_key_or_without_is_in_the_palette_with_its_slash_word() -> None:
    find_commands()
    found = {each.name: each for each in entries()}
    for command in all_commands():
        if not command.by_prompt and command.id != "program.palette":
            assert found[command.name].words[:1] == ((command.slash,) if command.slash else ())
            assert found[command.name].keys == command.keys_shown


async def test_the_commands_used_last_are_kept_newest_first(tmp_path: Path) -> None:
    layout = SavedLayout(tmp_path / "layout.json")
    for id in ("session.undo", "view.skins", "session.undo", *list(BY_ID)[:MOST_RECENT]):
        note_recent(layout, id)
    await layout.flush()
    again = recent_ids(SavedLayout(tmp_path / "layout.json"))
    assert again == [*reversed(list(BY_ID)[:MOST_RECENT])]
    note_recent(layout, "view.skins")
    layout.note("commands", {"recent": ["no.such", "view.skins"]})
    assert recent_ids(layout) == ["view.skins"]


def offered() -> Prompt:
    prompt = Prompt()
    offer_commands(prompt)
    return prompt


def test_the_menu_begins_with_what_people_look_for_and_says_what_it_does() -> None:
    find_commands()
    rows = rank_commands(offered().completer.commands, "")
    assert [each.label[1:] for each in rows][:10] == list(FIRST_WORDS)
    model = rows[0]
    assert model.detail.startswith("Choose the model") and model.keys == "alt+m"


@pytest.mark.parametrize(("alias", "word"), sorted(SLASH_ALIASES.items()))
def test_the_menu_finds_a_command_by_what_it_is_called_elsewhere(alias: str, word: str) -> None:
    assert alias in aliases_of(word)
    for typed in (alias, alias[:-1]):
        found = [each.label for each in rank_commands(offered().completer.commands, typed)]
        assert f"/{word}" in found[:2], typed
    assert found[0] == f"/{word}" or alias[:-1] in found[0]


@pytest.mark.thorough
async def test_an_unknown_command_says_what_was_meant_and_keeps_what_was_written(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as scene:
        await scene.type("/comapct the plan", "enter")
        await until(scene.pilot, lambda: scene.app.session.prompt.text == "/comapct the plan", "the draft")
        assert any("Did you mean /compact?" in str(each.message) for each in scene.app._notifications)


@pytest.mark.thorough
async def test_the_palette_runs_what_is_chosen_and_puts_it_first_next_time(tmp_path: Path) -> None:
    async with stage(tmp_path, [], size=(80, 24)) as scene:
        scene.app.remembered = SavedLayout(tmp_path / "layout.json")
        await scene.pilot.press("ctrl+p", *"help", "enter")
        await until(scene.pilot, lambda: type(scene.app.screen).__name__ == "HelpScreen", "help")
        await scene.pilot.press("escape", "ctrl+p")
        await until(scene.pilot, lambda: isinstance(scene.app.screen, PaletteScreen), "the palette")
        rows = scene.app.screen._rows  # type: ignore[attr-defined]
        assert [each.name or each.group for each in rows.entries[:2]] == [RECENT, "Help"]
        await scene.pilot.press("down", "down", "up", "up", "up")
        assert rows.entries[rows.cursor].name == "Help"
        # What the row has no room for stands below the list, whole.
        about = scene.app.screen.query_one("#palette-about", Static)
        hints = scene.app.screen.query_one(KeyLine)
        assert str(hints.render()).startswith("⏎ run")
        await scene.pilot.press(*"zzqq")
        assert str(hints.render()) == "esc back", "nothing is there to run or to choose"
        await scene.pilot.press(*["backspace"] * 4)
        assert about.display and str(about.render()) == BY_ID["program.help"].description.replace("`", "")
