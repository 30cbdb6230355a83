"""The editor core: every edit can be taken back, the cursor never leaves the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.prompt.buffer import TOKENS, Buffer, without_tokens
from widgets.prompt.grapheme_cells import clamp, clusters, width

ODD = [
    "a",
    "b ",
    "\n",
    "日本",
    "👨‍👩‍👧",
    "🇩🇪",
    "e\u0301",
    "\t",
    "☺️",
    chr(TOKENS[0]),
    "👍🏽",
    "_x",
    " ",
    "\u0301",
]
TEXTS = st.lists(st.sampled_from(ODD), max_size=12).map("".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.sampled_from(ODD)),
        st.tuples(st.sampled_from(["move", "select", "delete", "kill"]), st.integers(-3, 40)),
        st.tuples(
            st.sampled_from(["yank", "kill_to_line_end", "kill_to_line_start", "undo", "redo"]),
            st.none(),
        ),
        st.tuples(st.just("move_rows"), st.sampled_from([-1, 1])),
    ),
    max_size=40,
)


def perform(buffer: Buffer, name: str, value: object) -> None:
    if name == "select":
        assert isinstance(value, int)
        buffer.move(value, select=True)
    elif name in ("delete", "kill"):
        assert isinstance(value, int)
        getattr(buffer, name)(clamp(buffer.text, value))
    elif value is None:
        getattr(buffer, name)()
    else:
        getattr(buffer, name)(value)


@given(TEXTS, STEPS)
def test_undo_after_any_edits_restores_the_text_and_redo_brings_it_back(
    text: str, steps: list[tuple[str, object]]
) -> None:
    buffer = Buffer(text)
    for name, value in steps:
        perform(buffer, name, value)
    final = buffer.text
    while buffer.undo():
        pass
    assert buffer.text == text
    while buffer.redo():
        pass
    assert buffer.text == final or any(name == "undo" for name, _ in steps)


@given(TEXTS, STEPS)
def test_the_cursor_always_stands_between_two_characters(text: str, steps: list[tuple[str, object]]) -> None:
    buffer = Buffer(text)
    for name, value in steps:
        perform(buffer, name, value)
        assert 0 <= buffer.cursor <= len(buffer.text)
        start, end = buffer.line_start(), buffer.line_end()
        starts = {start + cluster.start for cluster in clusters(buffer.text[start:end])}
        assert buffer.cursor in starts | {end}
        low, high = buffer.selection or (0, 0)
        assert 0 <= low <= high <= len(buffer.text)


@pytest.mark.parametrize("character", ["日", "👨‍👩‍👧", "🇩🇪", "e\u0301", "☺️", "👍🏽", chr(TOKENS[3])])
def test_a_character_of_many_code_points_is_stepped_over_and_deleted_whole(character: str) -> None:
    buffer = Buffer("a" + character + "b")
    buffer.move(1)
    assert buffer.next_character() == 1 + len(character)
    buffer.move(1 + len(character))
    buffer.delete(buffer.previous_character())
    assert buffer.text == "ab"


def test_flags_are_told_apart_two_letters_at_a_time() -> None:
    assert [cluster.shown for cluster in clusters("🇩🇪🇫🇷x")] == ["🇩🇪", "🇫🇷", "x"]


def test_a_tab_takes_four_cells() -> None:
    assert width("a\tb") == 6


def test_typed_words_are_undone_one_at_a_time() -> None:
    buffer = Buffer()
    for character in "fix the bug":
        buffer.insert(character)
    buffer.undo()
    assert buffer.text == "fix the "
    buffer.undo()
    assert buffer.text == "fix "
    buffer.redo()
    assert buffer.text == "fix the "


def test_a_move_between_two_letters_keeps_them_apart_for_undo() -> None:
    buffer = Buffer()
    buffer.insert("a")
    buffer.move(0)
    buffer.insert("b")
    buffer.undo()
    assert buffer.text == "a"


def test_kills_in_a_row_join_in_the_order_of_the_text() -> None:
    buffer = Buffer("one two three")
    buffer.kill(buffer.previous_blank())
    buffer.kill(buffer.previous_blank())
    assert (buffer.text, buffer.killed) == ("one ", "two three")
    buffer.yank()
    assert buffer.text == "one two three"
    buffer.move(0)
    buffer.kill(buffer.next_word())
    assert buffer.killed == "one"


def test_killing_at_the_end_of_a_line_takes_the_line_feed() -> None:
    buffer = Buffer("one\ntwo")
    buffer.move(3)
    buffer.kill_to_line_end()
    assert buffer.text == "onetwo"


def test_words_end_at_signs_and_pastes() -> None:
    token = chr(TOKENS[0])
    buffer = Buffer(f"src/money.py {token}")
    assert buffer.previous_word() == len("src/money.py ")
    buffer.move(len("src/money.py"))
    assert buffer.previous_word() == len("src/money.")
    assert buffer.previous_blank() == 0
    buffer.move(0)
    assert buffer.next_word() == 3


def test_moving_through_lines_keeps_the_column_in_cells() -> None:
    buffer = Buffer("日本語テキスト\nab\nabcdefghij")
    buffer.move(4)
    assert buffer.move_rows(1)
    assert buffer.cursor == len("日本語テキスト\nab")
    assert buffer.move_rows(1)
    assert buffer.cursor == len("日本語テキスト\nab\nabcdefgh")
    assert not buffer.move_rows(1)
    assert buffer.move_rows(-2)
    assert buffer.cursor == 4


def test_typing_replaces_the_selection_and_undo_brings_it_back() -> None:
    buffer = Buffer("keep this")
    buffer.move(5)
    buffer.move(9, select=True)
    assert buffer.selected == "this"
    buffer.insert("x")
    assert buffer.text == "keep x"
    buffer.undo()
    assert buffer.text == "keep this"


def test_code_points_reserved_for_pastes_do_not_come_in_from_outside() -> None:
    assert without_tokens(f"a{chr(TOKENS[7])}b") == "a\ufffdb"


def test_an_emoji_of_parts_is_typed_part_by_part_in_the_middle_of_a_text() -> None:
    buffer = Buffer("ab")
    buffer.move(1)
    for part in "👨\u200d👩":
        buffer.insert(part)
    assert (buffer.text, buffer.cursor) == ("a👨\u200d👩b", 4)
