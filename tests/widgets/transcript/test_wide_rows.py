"""Code that is wider than the view: cut with a mark, scrolled sideways, wrapped, and never lost."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from themes.skin import Skin
from tools.results import DiffDetail, Display
from widgets.palette import Palette
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.drawing import GUTTER
from widgets.transcript.parts import AnswerItem, CallItem
from widgets.transcript.picture import line_of, selected_text
from widgets.transcript.view import Transcript
from widgets.transcript.wrap import WideRows, beyond, rows_for, whole_text, window

MARK = Style(dim=True)
LONG = "result = compute(" + ", ".join(f"argument_{number}" for number in range(20)) + ")"
ANSWER = f"Look:\n\n```python\nshort = 1\n{LONG}\n```\n\nThe words around it stay where they are."
DIFF = f"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n short = 1\n-{LONG}\n+{LONG[:-1]}, more)\n"

lines = st.text(st.sampled_from("ab 漢👩e\u0301"), max_size=60)


def row_of(text: str) -> list[Segment]:
    half = len(text) // 2
    return [Segment(part, Style(bold=True)) for part in (text[:half], text[half:]) if part]


def whole(row: list[Segment]) -> str:
    strip = Strip(row)
    return whole_text(strip, 0, len(strip.text))[0]


@given(lines, st.integers(2, 30), st.integers(0, 70))
def test_a_window_has_its_width_and_loses_nothing(text: str, width: int, shift: int) -> None:
    shown = window(row_of(text), width, shift, MARK)
    assert sum(run.cell_length for run in shown) <= width
    assert whole(shown) == text


@given(lines, st.integers(2, 30))
@example("aaaaaaaa\u0301 aaaaaa", 2)
def test_wrapped_rows_fit_and_lose_nothing(text: str, width: int) -> None:
    rows = rows_for(row_of(text), width, WideRows(wrap=True), MARK)
    assert all(sum(run.cell_length for run in row) <= width for row in rows)
    assert copied(rows) == text


def copied(rows: list[list[Segment]]) -> str:
    """The text of rows as it is copied: what the edge hides of blanks is told by the row behind."""
    text = ""
    for row in rows:
        strip = Strip(row)
        piece, blanks = whole_text(strip, 0, len(strip.text))
        text = piece if blanks is None else text.rstrip() + " " * blanks + piece
    return text


def test_blanks_over_several_rows_are_all_copied() -> None:
    for text in ("aaa  漢", "     x", "a" + " " * 9 + "x"):
        assert copied(rows_for(row_of(text), 2, WideRows(wrap=True), MARK)) == text


def test_a_word_that_fills_the_row_takes_the_blanks_behind_it_along() -> None:
    for text in ("hello world", "hello    world", "漢字漢字 world"):
        first, second = rows_for(row_of(text), 8 if "漢" in text else 5, WideRows(wrap=True), MARK)
        assert "".join(run.text for run in second) == "world"
        assert copied([first, second]) == text


def test_a_mark_behind_a_word_does_not_begin_a_row() -> None:
    rows = rows_for(row_of("shall it cover?"), 14, WideRows(wrap=True), MARK)
    assert ["".join(run.text for run in row) for row in rows] == ["shall it ", "cover?"]


def shown(text: str, width: int, shift: int) -> str:
    return "".join(run.text for run in window(row_of(text), width, shift, MARK))


def test_marks_stand_where_something_is_hidden() -> None:
    assert shown("0123456789", 10, 0) == "0123456789"
    assert shown("0123456789", 6, 0) == "01234›"
    assert shown("0123456789", 6, 2) == "‹3456›"
    assert shown("0123456789", 6, 4) == "‹56789"
    assert shown("    indented", 9, 3) == " indented"
    assert shown("ab", 6, 4) == "‹"


def test_a_wide_character_that_is_cut_in_two_leaves_a_blank() -> None:
    assert shown("日本語日本語", 6, 0) == "日本 ›"
    assert shown("日本語日本語", 6, 2) == "‹ 語 ›"


def test_code_is_wrapped_behind_words() -> None:
    row = row_of("first second(third)")
    rows = rows_for(row, 9, WideRows(wrap=True), MARK)
    assert ["".join(run.text for run in row) for row in rows] == ["first ", "second(", "third)"]


def test_what_stands_between_blanks_goes_to_the_next_row_whole() -> None:
    for text, width, second in (
        ("will touch: build/, /etc/motd", 25, "/etc/motd"),
        ("qwen3-coder:30b (and 1 more)", 17, "(and 1 more)"),
        ("curl -fsSL https://example.org", 20, "https://example.org"),
    ):
        rows = rows_for(row_of(text), width, WideRows(wrap=True), MARK)
        assert ["".join(run.text for run in row) for row in rows] == [text.removesuffix(second), second]


def test_what_fills_half_of_a_row_is_cut_behind_a_word_of_it() -> None:
    rows = rows_for(row_of("see https://example.org/install"), 20, WideRows(wrap=True), MARK)
    assert ["".join(run.text for run in row) for row in rows] == ["see https://example.", "org/install"]
    rows = rows_for(row_of("             result=first+second"), 18, WideRows(wrap=True), MARK)
    assert "".join(run.text for run in rows[0]).strip() != ""


def test_a_long_line_is_wrapped_in_one_pass() -> None:
    rows = rows_for([Segment("x" * 200_000)], 80, WideRows(wrap=True), MARK)
    assert len(rows) == 2_500


def test_what_stands_before_a_row_is_not_shifted() -> None:
    lead = [Segment("12  "), Segment("+ ")]
    (row,) = rows_for([Segment("0123456789abcdef")], 14, WideRows(shift=4), MARK, lead)
    assert "".join(run.text for run in row) == "12  + ‹56789a›"
    first, *rest = rows_for([Segment("0123456789abcdef")], 14, WideRows(wrap=True), MARK, lead)
    assert "".join(run.text for run in first) == "12  + 01234567"
    assert ["".join(run.text for run in row) for row in rest] == ["      89abcdef"]


def document(*items: AnswerItem | CallItem, width: int = 50, wrap: bool = False) -> Document:
    made = Document(Palette(Skin()))
    made.resize(width)
    made.wrap_code(wrap)
    made.load(items)
    return made


def everything(made: Document) -> Selection:
    """The selection of all rows, as a drag over them makes it."""
    return Selection(
        Offset(GUTTER, line_of(made.start_of(0))), Offset(0, line_of(RowPosition(made.stop, 0, 0)))
    )


def texts(made: Document) -> list[str]:
    return [row.strip.text.rstrip() for row in made.down(made.start)]


def edit() -> CallItem:
    return CallItem("1", "patch", Display("edit", "x.py", "+1 −1", DiffDetail(DIFF)), {}, "done", 0.1, "{}")


def test_copying_across_cut_rows_gives_whole_lines_wherever_they_are_scrolled_to() -> None:
    made = document(AnswerItem(ANSWER))
    assert any(text.endswith("›") for text in texts(made))
    for shift in (0, 8, 40, 1_000):
        made.shift(0, shift)
        assert LONG in selected_text(made, everything(made)).split("\n")


def test_copying_wrapped_code_gives_lines_as_they_were_written() -> None:
    made = document(AnswerItem(ANSWER), wrap=True)
    assert not any("›" in text for text in texts(made))
    assert LONG in selected_text(made, everything(made)).split("\n")


def test_a_diff_keeps_its_signs_scrolled_and_wrapped() -> None:
    made = document(edit())
    made.shift(0, 16)
    rows = [text for text in texts(made) if "‹" in text]
    assert [row.split()[1] for row in rows if len(row.split()) > 1][:3] == ["‹", "-", "+"]
    assert f"2  - {LONG}" in selected_text(made, everything(made))
    wrapped = document(edit(), wrap=True)
    assert f"2  - {LONG}" in selected_text(wrapped, everything(wrapped))


def test_code_in_a_list_is_shifted_and_copied_whole_too() -> None:
    made = document(AnswerItem(f"1. First\n   ```\n   {LONG}\n   ```\n"))
    made.shift(0, 8)
    assert LONG in selected_text(made, everything(made))
    assert any("1. First" in text for text in texts(made))


def test_a_folded_diff_counts_no_lines_while_rows_are_no_lines() -> None:
    long = "--- a/x\n+++ b/x\n@@ -0,0 +1,40 @@\n" + "".join(f"+{LONG}\n" for _ in range(40))
    item = CallItem("1", "patch", Display("edit", "x", "", DiffDetail(long)), {}, "done", 0.1, "{}")
    assert any("… 28 more, ⏎" in text for text in texts(document(item)))
    assert any(text.strip() == "… more, ⏎" for text in texts(document(item, wrap=True)))


def test_words_do_not_move_when_code_is_shifted() -> None:
    made = document(AnswerItem(ANSWER))
    before = texts(made)
    made.shift(0, 8)
    after = texts(made)
    assert len(before) == len(after)
    assert [text for text in before if "words" in text] == [text for text in after if "words" in text]


class Host(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()

    def compose(self) -> ComposeResult:
        yield self.transcript

    def rows(self) -> list[str]:
        return [self.transcript.render_line(y).text.rstrip() for y in range(self.transcript.size.height)]

    @property
    def code(self) -> str:
        return next(row for row in self.rows() if "›" in row or "‹" in row).strip()


async def test_arrows_scroll_the_code_of_the_focused_item_to_its_end_and_back() -> None:
    app = Host()
    async with app.run_test(size=(60, 20)) as pilot:
        app.transcript.load([AnswerItem(ANSWER)])
        app.transcript.focus()
        await pilot.pause()
        first = app.code
        await pilot.press("right")
        assert app.code.lstrip("▎ ").startswith("‹") and app.code != first
        for _ in range(59):
            app.simulate_key("l")
        await pilot.press("l")
        assert any("‹" in row and row.endswith("argument_19)") for row in app.rows())
        for _ in range(59):
            app.simulate_key("h")
        await pilot.press("h")
        assert app.code.removeprefix("▎").strip() == first


async def test_shift_and_the_wheel_scroll_the_code_under_the_mouse() -> None:
    from textual import events

    app = Host()
    async with app.run_test(size=(60, 20)) as pilot:
        app.transcript.load([AnswerItem(ANSWER), AnswerItem("words")])
        await pilot.pause()
        y = next(y for y, row in enumerate(app.rows()) if "›" in row)

        def wheel(kind: type[events.MouseEvent], shift: bool) -> events.MouseEvent:
            return kind(app.transcript, 10, y, 0, 0, 0, shift, False, False)

        app.transcript.post_message(wheel(events.MouseScrollDown, True))
        await pilot.pause()
        assert app.code.startswith("‹")
        app.transcript.post_message(wheel(events.MouseScrollLeft, False))
        await pilot.pause()
        assert not app.code.startswith("‹")


async def test_w_wraps_the_code_of_the_whole_conversation_and_cuts_it_again() -> None:
    app = Host()
    async with app.run_test(size=(60, 30)) as pilot:
        app.transcript.load([AnswerItem(ANSWER), edit()])
        app.transcript.focus()
        await pilot.pause()
        assert any("›" in row for row in app.rows())
        await pilot.press("w")
        rows = app.rows()
        assert not any("›" in row for row in rows)
        assert any("argument_19)" in row for row in rows)
        await pilot.press("right")
        assert app.rows() == rows
        await pilot.press("w")
        assert any("›" in row for row in app.rows())


async def test_code_that_is_being_written_scrolls_and_wraps_too() -> None:
    app = Host()
    async with app.run_test(size=(60, 20)) as pilot:
        app.transcript.add_text(f"```python\nshort = 1\n{LONG}\n")
        app.transcript.flush()
        app.transcript.focus()
        await pilot.pause()
        await pilot.press("right")
        assert app.code.lstrip("▎ ").startswith("‹")
        app.transcript.add_text(f"{LONG}\n```\n")
        app.transcript.flush()
        assert sum("‹" in row for row in app.rows()) == 3
        await pilot.press("w")
        assert sum("argument_19)" in row for row in app.rows()) == 2


def test_what_is_hidden_counts_cells() -> None:
    assert beyond(Strip(window([Segment("日" * 10)], 9, 0, MARK))) == cell_len("日" * 6)
    assert beyond(Strip([Segment("›")])) == 0
