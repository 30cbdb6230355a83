"""How room is shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from widgets.panes.arrangement import PaneWant, jump_keys, mode_for, share, side_width

wants = st.lists(st.builds(PaneWant, st.integers(0, 60), st.booleans(), st.booleans()), max_size=7)


@given(st.integers(0, 80), wants)
def test_panes_and_rules_never_take_more_than_there_is(height: int, wanted: list[PaneWant]) -> None:
    heights = share(height, wanted)
    shown = [lines for lines in heights if lines]
    assert sum(shown) + max(len(shown) - 1, 0) <= height
    assert all(lines <= 1 for lines, want in zip(heights, wanted, strict=True) if want.folded)
    assert all(
        lines <= 1 + max(want.lines, 1)
        for lines, want in zip(heights, wanted, strict=True)
        if not want.flexible
    )


@given(st.integers(20, 80), wants)
def test_a_flexible_pane_leaves_no_line_unused(height: int, wanted: list[PaneWant]) -> None:
    heights = share(height, [*wanted, PaneWant(0, flexible=True)])
    assert sum(heights) + len(heights) - 1 == height


def test_small_panes_get_what_they_want_and_the_log_the_rest() -> None:
    assert share(30, [PaneWant(5), PaneWant(3), PaneWant(0, flexible=True)]) == [6, 4, 18]


def test_a_long_list_leaves_the_log_its_least() -> None:
    assert share(20, [PaneWant(100), PaneWant(0, flexible=True)]) == [13, 6]


def test_without_room_titles_remain_from_the_top() -> None:
    assert share(3, [PaneWant(5), PaneWant(5), PaneWant(5)]) == [1, 1, 0]


def test_the_screen_folds_by_its_width() -> None:
    assert [mode_for(width) for width in (120, 100, 99, 60, 59, 0)] == [
        "wide", "wide", "bar", "bar", "bare", "bare",
    ]  # fmt: skip


def test_the_conversation_keeps_its_least_width() -> None:
    assert side_width(80, 120) == 59
    assert side_width(1, 120) == 24
    assert side_width(40, 120) == 40


@given(st.lists(st.text(max_size=8), unique=True, max_size=20))
def test_jump_letters_are_different_for_each(names: list[str]) -> None:
    keys = jump_keys(names)
    assert len(set(keys.values())) == len(keys) == len(names)
