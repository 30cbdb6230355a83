"""The reader: a text of any length, of which only what is in sight is drawn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection

from tests.support.hostile import KINDS
from tools.text.safe_text import clean, reveal
from widgets.rows.reader import PIECE, Reader, ReaderLook, ReaderRows, cut
from widgets.transcript.wrap import Row, WideRows

PLAIN, RED, DIM = Style(), Style(bold=True), Style(dim=True)
STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Host(App[None]):
    """An application with nothing but a reader."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def compose(self) -> ComposeResult:
        yield self.reader


def rows_of(text: str, width: int = 40, wide: WideRows | None = None, **more: re.Pattern[str]) -> ReaderRows:
    rows = ReaderRows(text, reveal, **more)
    rows.look(width, wide or WideRows(wrap=True), PLAIN, RED, DIM)
    return rows


def text_of(row: Row) -> str:
    return "".join(run.text for run in row)


def screen(reader: Reader) -> str:
    return "\n".join(reader.render_line(y).text for y in range(reader.size.height))


@given(st.text(st.sampled_from("a \n漢\u0301"), max_size=60), st.integers(1, 5))
def test_nothing_is_lost_where_a_text_is_cut(text: str, times: int) -> None:
    text = text * times * (PIECE // 30)
    pieces, continued = cut(text)
    assert all(len(piece) <= PIECE for piece in pieces)
    joined = "".join(("" if at in continued or not at else "\n") + piece for at, piece in enumerate(pieces))
    assert joined == text


@pytest.mark.thorough
@pytest.mark.parametrize("show", [clean, reveal])
@pytest.mark.parametrize("wide", [WideRows(wrap=True), WideRows(), WideRows(shift=24)])
def test_no_row_of_any_kind_steers_or_is_too_wide(show: object, wide: WideRows) -> None:
    for kind in KINDS:
        rows = ReaderRows(clean(kind.text) if show is clean else kind.text, show)  # type: ignore[arg-type]
        rows.look(31, wide, PLAIN, RED, DIM)
        for index in range(min(len(rows.pieces), 40)):
            for row in rows.rows(index)[:200]:
                assert not STEERS.search(text_of(row)) and cell_len(text_of(row)) <= 31, kind.name


@pytest.mark.thorough
def test_wrapped_rows_say_everything_and_spell_out_what_is_hidden() -> None:
    for kind in KINDS:
        if kind.huge:
            continue
        rows = rows_of(kind.text)
        shown = "".join(text_of(row) for index in range(len(rows.pieces)) for row in rows.rows(index))
        wanted = re.sub(r"[\n\t ]", "", reveal(kind.text))
        assert re.sub(r"[\t ]", "", shown).replace("\u200d", "") == wanted.replace("\u200d", ""), kind.name


def test_what_marks_find_is_drawn_in_the_tone_of_errors() -> None:
    rows = rows_of("a rm -rf b\nrm", marks=re.compile(r"rm -\w+"))
    assert [run.text for run in rows.rows(0)[0] if run.style == RED] == ["rm -rf"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "text",
    ["x" * 5_000_000, "x\n" * 200_000, "words and " * 200_000, "\x00" * 500_000, "a" + "\u0301" * 500_000],
    ids=["one line", "many lines", "words", "nul", "marks"],
)
async def test_opening_and_scrolling_draw_only_what_comes_into_sight(text: str) -> None:
    reader = Reader(text, reveal, look=ReaderLook(focusable=True))
    async with Host(reader).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert reader.rows.drawn <= 200
        for key in ("G", "pageup", "up", "g", "pagedown", "down"):
            before = reader.rows.drawn
            reader.focus()
            await pilot.press(key)
            await pilot.pause()
            assert reader.rows.drawn - before <= 100, key


@pytest.mark.thorough
async def test_keys_reach_start_and_end_and_every_row_between() -> None:
    reader = Reader("\n".join(f"line {number}" for number in range(200)), look=ReaderLook(focusable=True))
    async with Host(reader).run_test(size=(40, 10)) as pilot:
        reader.focus()
        seen: set[str] = set()
        for _ in range(40):
            seen.update(line.strip(" ┃") for line in screen(reader).split("\n"))
            pilot.app.simulate_key("pagedown")
            await pilot.pause()
        assert seen >= {f"line {number}" for number in range(200)}
        assert reader.page(1) is False and "line 199" in reader.render_line(9).text
        await pilot.press("g")
        assert "line 0" in reader.render_line(0).text and reader.page(-1) is False
        await pilot.press("G", "k")
        assert "line 198" in reader.render_line(9).text


async def test_the_end_of_one_long_line_is_reached() -> None:
    reader = Reader("x" * 100_000 + "END", look=ReaderLook(focusable=True))
    async with Host(reader).run_test(size=(40, 10)) as pilot:
        reader.focus()
        await pilot.press("G")
        assert "END" in reader.render_line(9).text


async def test_long_lines_wrap_or_are_shifted() -> None:
    reader = Reader("start " + "x" * 100 + " end", wrap=False, look=ReaderLook(focusable=True))
    async with Host(reader).run_test(size=(40, 10)) as pilot:
        reader.focus()
        await pilot.pause()
        assert reader.render_line(0).text.rstrip().endswith("›") and "end" not in screen(reader)
        await pilot.press(*["l"] * 10)
        assert " end" in screen(reader) and "‹" in screen(reader)
        await pilot.press("w")
        assert "start" in screen(reader) and "end" in screen(reader)


async def test_a_selection_copies_what_was_wrapped_in_one_piece() -> None:
    text = "first\n" + "word " * 30 + "\nlast"
    reader = Reader(text)
    async with Host(reader).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        whole = reader.get_selection(Selection(None, None))
        assert whole is not None and whole[0] == text
        part = reader.get_selection(Selection(Offset(2, 0), None))
        assert part is not None and part[0] == text[2:]


async def test_a_mouse_selects_text_and_it_is_lit() -> None:
    reader = Reader("alpha beta\ngamma delta")
    async with Host(reader).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        await pilot.mouse_down(reader, offset=(7, 0))
        await pilot.hover(reader, offset=(6, 1))
        await pilot.mouse_up(reader, offset=(6, 1))
        await pilot.pause()
        assert pilot.app.screen.get_selected_text() in ("beta\ngamma", "beta\ngamma ")
        backgrounds = {run.style.bgcolor for run in reader.render_line(0) if run.style and "beta" in run.text}
        assert backgrounds == {reader.palette.style("text", "selection").bgcolor}


def test_marks_without_a_letter_are_no_rows_of_their_own() -> None:
    rows = rows_of("a" + "\u0301" * 10 * PIECE)
    assert rows.count(1_000) <= 50
