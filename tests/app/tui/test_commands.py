"""The registry of commands and everything made from it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from textual.binding import BindingsMap
from textual.keys import KEY_DISPLAY_ALIASES, Keys

from app.tui.commands.actions import CommandActions
from app.tui.commands.registry import (
    BY_ID,
    BY_SLASH,
    COMMANDS,
    CommandCall,
    all_commands,
    bindings,
    find_commands,
    group_commands,
    markdown,
    read_slash,
)
from widgets.key_names import shown_key

DOCS = Path(__file__).parents[3] / "docs"


def test_the_document_is_what_the_registry_says() -> None:
    assert (DOCS / "commands.md").read_text("utf-8") == markdown()


def test_ids_slash_words_and_keys_are_taken_once() -> None:
    find_commands()
    for values in (
        [command.id for command in all_commands()],
        [command.slash for command in all_commands() if command.slash],
        [key for command in all_commands() for key in command.keys],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.id)
def test_every_command_can_be_reached_and_does_something(command) -> None:
    assert command.keys or command.slash
    assert command.by_prompt or callable(getattr(CommandActions, str(command.action)))
    assert BY_ID[command.id] is command
    assert command.description.endswith(".")


def test_every_command_has_a_group_that_is_shown() -> None:
    groups = [group for group, _ in group_commands(COMMANDS)]
    assert [command for _, members in group_commands(COMMANDS) for command in members] == sorted(
        COMMANDS, key=lambda each: groups.index(each.group)
    )


def test_a_slash_command_is_read_with_its_argument() -> None:
    assert read_slash("/skin  paper ") == CommandCall(BY_SLASH["skin"], "paper")
    assert read_slash("HELP") == CommandCall(BY_SLASH["help"], "")
    assert read_slash("/find two  words") == CommandCall(BY_SLASH["find"], "two  words")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("/hlep", "/help"),
        ("/sesions", "Did you mean /sessions?"),
        ("/xyzzy", "/help lists all"),
        ("/quit now", "takes nothing"),
        ("/title", "needs <title>"),
        ("/", "There is no command"),
    ],
)
def test_what_is_no_command_gets_a_sentence(text: str, part: str) -> None:
    answer = read_slash(text)
    assert isinstance(answer, str) and part in answer


def test_keys_are_shown_as_terminals_write_them() -> None:
    assert [shown_key(key) for key in ("ctrl+p", "alt+1", "escape", "f1")] == ["^P", "alt+1", "esc", "F1"]


def test_the_keys_are_keys_that_exist() -> None:
    known = {str(key.value) for key in Keys} | set(KEY_DISPLAY_ALIASES)
    for command in COMMANDS:
        for key in command.keys:
            name = key.removeprefix("alt+") if key.startswith("alt+") else key
            assert name in known or len(name) == 1, key


def test_the_bindings_carry_the_ids_of_their_commands() -> None:
    made = BindingsMap(bindings())
    ids = {binding.id for _, binding in made}
    assert ids == {command.id for command in COMMANDS if not command.by_prompt}
