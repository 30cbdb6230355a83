"""Rows as bytes: a terminal shows what Textual's own bytes show, and is told less."""

from __future__ import annotations

from collections.abc import Sequence

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import ControlType, Segment
from rich.style import Style
from textual.strip import Strip

from widgets.painting import direct_rows
from widgets.painting.direct_rows import RowEncoder

WIDTH = 60
Runs = Sequence[tuple[str, Style | None]]
STYLES = [
    None,
    Style.null(),
    *map(
        Style.parse, ("red", "blue on green", "bold blue on green", "white on green", "on green", "dim red")
    ),
    *map(Style.parse, ("underline on green", "underline blue on green", "reverse red on green", "strike")),
    *map(Style.parse, ("dim red", "overline")),
    *map(Style.parse, ("italic #102030 on #405060", "#abcdef on #405060", "default on default")),
    Style.from_meta({"link": "https://example.org"}) + Style.parse("blue on green"),
]
TEXTS = ["word", " ", "   ", "", "日本", "two words", " x ", "\u3000", "\xa0", "é"]


def console(system: str | None = "truecolor") -> Console:
    return Console(color_system=system, force_terminal=True)  # type: ignore[arg-type]


def cells(output: str) -> list[tuple[object, ...]]:
    """What is seen of each cell of a line that was fed to a terminal: of a blank, not in which colour."""
    screen = pyte.Screen(WIDTH, 1)
    pyte.Stream(screen).feed(output)
    seen: list[tuple[object, ...]] = []
    for x in range(WIDTH):
        cell = screen.buffer[0][x]
        lines = (cell.underscore, cell.strikethrough, cell.reverse)
        # The second half of a wide blank holds nothing.
        blank = cell.data.isspace() or (cell.data == "" and bool(seen) and str(seen[-1][0]).isspace())
        words = () if blank and not any(lines) else (cell.fg, cell.bold, cell.italics)
        seen.append((cell.data, cell.bg, *lines, *words))
    return seen


def row_of(*runs: tuple[str, str]) -> Strip:
    return Strip([Segment(text, Style.parse(style)) for text, style in runs])


RUNS = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(STYLES)), max_size=8)


@given(RUNS)
def test_a_terminal_shows_the_same_as_of_textuals_own_bytes(runs: Runs) -> None:
    row = Strip([Segment(text, style) for text, style in runs])
    assert cells(RowEncoder(console()).encode(row)) == cells(row.render(console()))


@given(RUNS)
def test_a_row_leaves_no_style_behind(runs: Runs) -> None:
    screen = pyte.Screen(WIDTH, 2)
    written = RowEncoder(console()).encode(Strip([Segment(text, style) for text, style in runs]))
    pyte.Stream(screen).feed(f"{written}\x1b[2;1Hnext")
    cell = screen.buffer[1][0]
    assert (cell.fg, cell.bg, cell.bold, cell.underscore, cell.reverse) == (
        "default",
        "default",
        *[False] * 3,
    )


def test_blanks_go_along_with_the_words_beside_them() -> None:
    row = row_of(
        (" ", "red on green"), ("  ", "blue on green"), ("word", "blue on green"), ("   ", "red on green")
    )
    assert RowEncoder(console("standard")).encode(row) == "\x1b[0;34;42m   word   \x1b[0m"


def test_blanks_that_show_a_line_keep_their_style() -> None:
    row = row_of(("a", "blue on green"), (" ", "underline blue on green"), (" ", "reverse blue on green"))
    written = RowEncoder(console("standard")).encode(row)
    assert written == "\x1b[0;34;42ma\x1b[0;4;34;42m \x1b[0;7;34;42m \x1b[0m"


def test_words_of_one_style_in_several_runs_are_told_once() -> None:
    row = row_of(("one", "red"), (" ", "blue"), ("two", "red"))
    assert RowEncoder(console("standard")).encode(row) == "\x1b[0;31mone two\x1b[0m"


def test_plain_words_need_no_sequence() -> None:
    assert (
        RowEncoder(console()).encode(Strip([Segment("plain"), Segment(" "), Segment("words")]))
        == "plain words"
    )


@pytest.mark.parametrize(
    "run", [Segment("x", Style(link="https://example.org")), Segment("\x07", None, [(ControlType.BELL,)])]
)
def test_what_is_more_than_colour_is_left_to_textual(run: Segment) -> None:
    row = Strip([Segment("before", Style.parse("red")), run])
    assert RowEncoder(console()).encode(row) == Strip([Segment("before", Style.parse("red")), run]).render(
        console()
    )


def test_a_row_is_written_anew_when_more_were_kept_than_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_rows, "ROWS", 2)
    monkeypatch.setattr(direct_rows, "STYLES", 2)
    used = RowEncoder(console("standard"))
    rows = [row_of((str(number), f"color({number})")) for number in range(1, 7)]
    first = [used.encode(row) for row in rows]
    assert [used.encode(row) for row in rows] == first
    assert first[0] == "\x1b[0;31m1\x1b[0m"
