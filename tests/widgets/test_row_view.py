"""The arithmetic of long lists, against a plain model of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from widgets.rows.row_list import RowFilter
from widgets.rows.row_view import RowView


def view(heights: list[int], height: int, *, follow: bool = False) -> RowView:
    made = RowView(lambda row: heights[row], count=len(heights), follow=follow)
    made.resize(height)
    return made


def all_lines(heights: list[int]) -> list[tuple[int, int]]:
    return [(row, line) for row, tall in enumerate(heights) for line in range(tall)]


heights_of_rows = st.lists(st.integers(1, 5), min_size=1, max_size=30)
moves = st.lists(
    st.tuples(st.sampled_from(["move", "scroll", "to", "resize"]), st.integers(-40, 40)), max_size=12
)


@given(heights_of_rows, st.integers(1, 12), st.booleans(), moves)
def test_the_window_is_always_a_full_stretch_of_the_lines(
    heights: list[int], height: int, follow: bool, steps: list[tuple[str, int]]
) -> None:
    window = view(heights, height, follow=follow)
    lines = all_lines(heights)
    for step, amount in steps:
        if step == "move":
            window.move(amount)
        elif step == "scroll":
            window.scroll(amount)
        elif step == "to":
            window.move_to(abs(amount) % len(heights))
        else:
            height = abs(amount) % 12 + 1
            window.resize(height)
        shown = window.layout()
        start = lines.index(shown[0])
        assert shown == lines[start : start + height]
        assert len(shown) == min(height, len(lines))
        if step in ("move", "to") and heights[window.cursor_row or 0] <= height:
            cursor_lines = [line for line in shown if line[0] == window.cursor_row]
            assert len(cursor_lines) == heights[window.cursor_row or 0]


changes = st.lists(
    st.tuples(st.sampled_from(["append", "insert", "drop", "judge", "scan"]), st.integers(0, 60)), max_size=30
)


@given(st.lists(st.sampled_from(["yes", "no"]), max_size=20), changes)
def test_a_filtered_list_stays_right_whatever_happens_to_the_rows(
    words: list[str], steps: list[tuple[str, int]]
) -> None:
    made = RowView(lambda _row: 1, count=len(words))
    made.resize(5)
    judge = RowFilter(lambda index: words[index])
    judge.needle = "yes"
    made.start_filter()
    for step, amount in steps:
        word = "yes" if amount % 2 else "no"
        if step == "append":
            words.append(word)
            made.append(1, [len(words) - 1] if word == "yes" else [])
        elif step == "insert":
            at = amount % (len(words) + 1)
            words.insert(at, word)
            made.insert(at, word == "yes")
        elif step == "drop":
            del words[: amount % 4]
            made.drop(amount % 4)
        elif step == "judge" and words:
            words[amount % len(words)] = word
            made.update_match(amount % len(words), word == "yes")
        elif step == "scan":
            judge.scan_slice(made)
        made.layout()
    while judge.scan_slice(made):
        pass
    assert list(made.rows) == [index for index, word in enumerate(words) if word == "yes"]
    assert made.count == len(words)


def test_following_keeps_the_newest_row_in_view_until_one_scrolls_up() -> None:
    heights = [1] * 10
    window = view(heights, 3, follow=True)
    assert window.layout() == [(7, 0), (8, 0), (9, 0)]
    heights.append(1)
    window.append(1, [])
    assert window.layout()[-1] == (10, 0)
    window.scroll(-4)
    heights.append(1)
    window.append(1, [])
    assert window.layout() == [(4, 0), (5, 0), (6, 0)]
    window.scroll(99)
    assert window.follow
    assert window.layout()[-1] == (11, 0)


def test_rows_that_come_in_above_do_not_move_what_is_read() -> None:
    heights = [1] * 40
    window = view(heights, 3)
    window.move_to(20)
    before = window.layout()
    heights.append(1)
    window.insert(5, True)
    assert window.cursor_row == 21
    assert window.layout() == [(row + 1, line) for row, line in before]
    window.drop(6)
    assert window.cursor_row == 15


def test_only_rows_near_the_window_are_measured() -> None:
    measured: set[int] = set()

    def height_of(row: int) -> int:
        measured.add(row)
        return 1

    window = RowView(height_of, count=1_000_000, follow=True)
    window.resize(20)
    window.layout()
    window.move(-30)
    window.layout()
    window.move_to(500_000)
    window.layout()
    assert len(measured) < 300


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 8),
    st.booleans(),
    st.integers(-60, 60),
    st.sampled_from([1, -1]),
)
def test_paging_misses_no_line_and_reaches_the_end(
    heights: list[int], height: int, follow: bool, scrolled: int, direction: int
) -> None:
    window = view(heights, height, follow=follow)
    if direction < 0:
        window.to_end()
    window.scroll(scrolled)
    lines = all_lines(heights)
    for _ in range(2 * len(lines) + 2):
        before = [lines.index(line) for line in window.layout()]
        window.page(direction)
        after = [lines.index(line) for line in window.layout()]
        assert after[0] <= before[-1] + 1 and before[0] <= after[-1] + 1
    end = len(heights) - 1 if direction > 0 else 0
    assert window.cursor_row == end
    assert window.layout()[-1 if direction > 0 else 0] == lines[-1 if direction > 0 else 0]


def test_a_page_of_tall_rows_moves_by_what_was_in_view() -> None:
    window = view([3] * 20, 10)
    seen = []
    for _ in range(3):
        window.page(1)
        seen.append(window.cursor_row)
    window.page(-1)
    assert (seen, window.cursor_row) == ([3, 6, 9], 6)
