"""What is completed, and in which order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.context.references import references
from tests.widgets.prompt.host import COMMANDS
from widgets.prompt.completion import (
    Mention,
    PathIndex,
    form_choices,
    hits,
    mention_at,
    mention_of,
    names_lines,
    path_choices,
    rank_commands,
)

MENTIONS = [
    ("/", 1, Mention("command", 0, 1, "")),
    ("/mod", 4, Mention("command", 0, 4, "mod")),
    ("/model x", 3, Mention("command", 0, 6, "mo")),
    ("/model x", 8, None),
    ("//", 2, None),
    ("/etc/hosts", 4, None),
    ("say /model", 10, None),
    ("@", 1, Mention("file", 0, 1, "")),
    ("see @src/mo", 11, Mention("file", 4, 11, "src/mo")),
    ("a\n@b", 4, Mention("file", 2, 4, "b")),
    ('see @"my fi', 11, Mention("file", 4, 11, "my fi")),
    ("(@b", 3, Mention("file", 1, 3, "b")),
    ("@file:src/m", 11, Mention("file", 0, 11, "src/m", "file")),
    ('@file:"my fi', 12, Mention("file", 0, 12, "my fi", "file")),
    ("see @folder:", 12, Mention("file", 4, 12, "", "folder")),
    ("@git:2", 6, Mention("file", 0, 6, "git:2")),
    ("me@home.org", 11, None),
    ("see @b now", 10, None),
]


@pytest.mark.parametrize(("text", "cursor", "expected"), MENTIONS)
def test_the_word_at_the_cursor_is_found(text: str, cursor: int, expected: Mention | None) -> None:
    assert mention_at(text, cursor) == expected


def test_commands_that_begin_with_the_query_come_first() -> None:
    assert [choice.label for choice in rank_commands(COMMANDS, "co")] == ["/compact", "/cost"]
    assert rank_commands(COMMANDS, "rbk")[0].label == "/rollback"
    assert rank_commands(COMMANDS, "zzz") == []
    assert len(rank_commands(COMMANDS, "")) == len(COMMANDS)


PATHS = [
    "src/api/money_view.py",
    "src/money.py",
    "money/deep/er/x.py",
    "tests/test_money.py",
    "a/MONEY",
    "m/o/n/e/y",
]


def test_names_beat_folders_and_whole_words_beat_scattered_letters() -> None:
    assert PathIndex(PATHS).rank("money") == [
        "a/MONEY",
        "src/money.py",
        "src/api/money_view.py",
        "tests/test_money.py",
        "money/deep/er/x.py",
        "m/o/n/e/y",
    ]


def test_letters_in_order_are_enough() -> None:
    assert PathIndex(PATHS).rank("srcmnyvw") == ["src/api/money_view.py"]
    assert PathIndex(PATHS).rank("src/m") == ["src/money.py", "src/api/money_view.py"]
    assert PathIndex(PATHS).rank("[^]") == []


def test_paths_that_cannot_be_written_or_shown_are_left_out() -> None:
    assert PathIndex(["a\x1b[31m", 'a"b', "a\nb", "", "ab"]).rank("") == ["ab"]


def test_a_path_with_blanks_is_quoted() -> None:
    assert mention_of("docs/money notes.md") == '@"docs/money notes.md"'


def test_the_letters_that_matched_are_marked() -> None:
    assert hits("src/money.py", "mon") == (4, 5, 6)
    assert hits("src/money.py", "mpy") == (4, 10, 11)
    assert hits("src/money.py", "zz") == ()


@given(
    st.lists(st.text("abm/._-[İß ", max_size=8), max_size=30), st.text("abm/.[^İß", min_size=1, max_size=4)
)
def test_exactly_the_paths_with_the_letters_in_order_are_found(paths: list[str], query: str) -> None:
    wanted = query.lower()
    expected = {path for path in paths if path and _has_in_order(path.lower(), wanted)}
    assert set(PathIndex(paths).rank(query)) == expected


def test_many_paths_give_as_many_as_asked_for() -> None:
    chance = random.Random(1)
    paths = [
        "/".join(chance.choice(["src", "api", "money"]) for _ in range(4)) + str(n) for n in range(20_000)
    ]
    index = PathIndex(paths)
    assert len(index.rank("e")) == len(index.rank("smy9")) == 50
    assert index.rank("zz") == []


def _has_in_order(path: str, wanted: str) -> bool:
    rest = iter(path)
    return all(character in rest for character in wanted)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["file:", "folder:", "diff", "staged", "git:", "url:"]),
        ("f", ["file:", "folder:"]),
        ("ST", ["staged"]),
        ("git:2", []),
        ("file:x", []),
        ("money", []),
    ],
)
def test_the_forms_that_attach_something_are_offered_by_how_they_begin(query: str, names: list[str]) -> None:
    assert [each.label for each in form_choices(query)] == names


def test_what_the_menu_writes_is_read_as_it_is_meant() -> None:
    index = PathIndex(["src/my money.py", "src/api/money.py", "top.py"])
    files = path_choices("file", index.rank("money"), "money")
    folders = path_choices("folder", index.folders().rank("s"), "s")
    assert [each.text for each in folders] == ["@folder:src/ ", "@folder:src/api/ "]
    assert [each.text for each in files] == ["@file:src/api/money.py", '@file:"src/my money.py"']
    read = references(" ".join(each.text for each in (*folders, *files, *form_choices("git"))))
    assert [(each.kind, each.target) for each in read] == [
        ("folder", "src/"),
        ("folder", "src/api/"),
        ("file", "src/api/money.py"),
        ("file", "src/my money.py"),
        ("git", "3"),
    ]


def test_nothing_is_offered_while_the_lines_of_a_file_are_written() -> None:
    words = ("src/a.py:", "src/a.py:1", "src/a.py:10-", "src/a.py:10-20")
    assert all(names_lines("file", each) for each in words)
    assert not any(names_lines("file", each) for each in ("", ":", "src/a.py", "src/a:b"))
