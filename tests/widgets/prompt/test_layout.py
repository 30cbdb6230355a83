"""Soft wrap loses nothing and stays within the width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.prompt.test_buffer import ODD
from widgets.prompt.buffer import TOKENS
from widgets.prompt.grapheme_cells import clusters, width
from widgets.prompt.picture import lay_out, offset_at, row_of

TOKEN = chr(TOKENS[0])
LABELS = {TOKEN: "[paste #1 · 9 lines]"}


@given(st.lists(st.sampled_from([*ODD, "word ", "longerword"]), max_size=30).map("".join), st.integers(2, 30))
def test_rows_cover_the_text_and_only_a_single_character_may_be_wider(text: str, cells: int) -> None:
    rows = lay_out(text, cells, LABELS)
    shown = ""
    for (start, end), following in zip(rows, [*rows[1:], None], strict=True):
        shown += text[start:end]
        if following is not None and following[0] != end:
            assert text[end : following[0]] == "\n"
            shown += "\n"
        assert width(text[start:end], LABELS) <= cells or len(clusters(text[start:end], LABELS)) == 1
    assert shown == text


def test_lines_wrap_behind_blanks() -> None:
    text = "fix the rounding in money"
    assert [text[start:end] for start, end in lay_out(text, 10, {})] == ["fix the ", "rounding ", "in money"]


def test_a_word_longer_than_a_row_is_cut() -> None:
    assert lay_out("abcdefghijkl", 5, {}) == [(0, 5), (5, 10), (10, 12)]


def test_wide_characters_wrap_anywhere_but_never_in_half() -> None:
    assert lay_out("日本語です", 5, {}) == [(0, 2), (2, 4), (4, 5)]


def test_a_cell_leads_to_the_character_drawn_there() -> None:
    text = f"ab日{TOKEN}z"
    rows = lay_out(text, 40, LABELS)
    assert [offset_at(text, rows, 0, column, LABELS) for column in (0, 2, 3, 4, 20, 24, 99)] == [
        0,
        2,
        2,
        3,
        3,
        4,
        5,
    ]
    assert row_of(rows, 3) == 0


def test_the_end_of_a_wrapped_row_is_the_start_of_the_next() -> None:
    text = "abcdefgh"
    rows = lay_out(text, 4, {})
    assert row_of(rows, 4) == 1
    assert offset_at(text, rows, 0, 99, {}) == 3


@given(st.text("ab -", max_size=60), st.integers(1, 12))
def test_plain_text_wraps_alike_beside_a_folded_paste(line: str, cells: int) -> None:
    label = {TOKEN: "x" * cells}
    alone = lay_out(line, cells, {})
    general = lay_out(line + TOKEN, cells, label)
    assert general[: len(alone) - 1] == alone[:-1]
